"""Spark jobs that belong together: they can be cancelled together, and beside those of others they have an equal turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where Spark's scheduler is ``FAIR``, pools have equal turns, however many tasks wait in one; else nobody looks at it.
_POOL = "spark.scheduler.pool"


@contextmanager
def tag_jobs(spark: SparkSession, checkpoint: str, table: str) -> Iterator[None]:
    """Jobs that this thread starts meanwhile are a pipeline's for a table. A tag, for sinks set the group of jobs to their own."""
    tag, context = _tag(checkpoint, table), spark.sparkContext
    pool = context.getLocalProperty(_POOL)
    context.addJobTag(tag)
    context.setLocalProperty(_POOL, pool or tag)  # one that the caller has chosen stays
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, pool)  # type: ignore[arg-type]  # None: there is none
        context.removeJobTag(tag)


def cancel_jobs(spark: SparkSession, checkpoint: str, table: str) -> None:
    """Cancels a pipeline's jobs for a table; whoever waits for one gets an error."""
    spark.sparkContext.cancelJobsWithTag(_tag(checkpoint, table))


def _tag(checkpoint: str, table: str) -> str:
    """Pipelines of one application may have tables of one name; a checkpoint is one pipeline's."""
    return f"headrace-{quote(checkpoint, safe='')}-{quote(table, safe='')}"
