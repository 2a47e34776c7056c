"""Spark jobs that belong together, so that they can be cancelled together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def tag_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Jobs that this thread starts meanwhile bear the name. A tag, for sinks set the group of jobs to their own."""
    spark.sparkContext.addJobTag(_tag(name))
    try:
        yield
    finally:
        spark.sparkContext.removeJobTag(_tag(name))


def cancel_jobs(spark: SparkSession, name: str) -> None:
    """Cancels the jobs that bear the name; whoever waits for one gets an error."""
    spark.sparkContext.cancelJobsWithTag(_tag(name))


def _tag(name: str) -> str:
    return f"headrace-{quote(name, safe='')}"
