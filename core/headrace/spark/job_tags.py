"""Tags of Spark jobs per table, for cancellation and fair scheduling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: With the ``FAIR`` scheduler, pools share the executors equally regardless of their waiting tasks. Other schedulers ignore it.
_POOL = "spark.scheduler.pool"


@contextmanager
def tag_jobs(spark: SparkSession, checkpoint: str, table: str) -> Iterator[None]:
    """Tag the jobs that this thread starts for a table of a pipeline.

    A tag is used because sinks set the job group themselves.
    """
    tag, context = _tag(checkpoint, table), spark.sparkContext
    pool = context.getLocalProperty(_POOL)
    context.addJobTag(tag)
    context.setLocalProperty(_POOL, pool or tag)  # keep the caller's pool
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, pool)  # type: ignore[arg-type]  # None removes the pool
        context.removeJobTag(tag)


def cancel_jobs(spark: SparkSession, checkpoint: str, table: str) -> None:
    """Cancel the jobs of a pipeline for a table. Threads that wait for them get an error."""
    spark.sparkContext.cancelJobsWithTag(_tag(checkpoint, table))


def _tag(checkpoint: str, table: str) -> str:
    """Return the tag of a table. It contains the checkpoint, because two pipelines may have tables of the same name."""
    return f"headrace-{quote(checkpoint, safe='')}-{quote(table, safe='')}"
