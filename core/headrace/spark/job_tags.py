"""Spark jobs that belong together, so that they can be cancelled together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def tag_jobs(spark: SparkSession, checkpoint: str, table: str) -> Iterator[None]:
    """Jobs that this thread starts meanwhile are a pipeline's for a table. A tag, for sinks set the group of jobs to their own."""
    tag = _tag(checkpoint, table)
    spark.sparkContext.addJobTag(tag)
    try:
        yield
    finally:
        spark.sparkContext.removeJobTag(tag)


def cancel_jobs(spark: SparkSession, checkpoint: str, table: str) -> None:
    """Cancels a pipeline's jobs for a table; whoever waits for one gets an error."""
    spark.sparkContext.cancelJobsWithTag(_tag(checkpoint, table))


def _tag(checkpoint: str, table: str) -> str:
    """Pipelines of one application may have tables of one name; a checkpoint is one pipeline's."""
    return f"headrace-{quote(checkpoint, safe='')}-{quote(table, safe='')}"
