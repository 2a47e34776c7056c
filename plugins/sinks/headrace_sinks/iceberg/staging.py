"""Files that Iceberg writes for a table and does not commit."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stage_files(spark: SparkSession, name: str, java: Any, rows: DataFrame) -> list[Any]:
    """The files of rows, written as the table's properties say.

    Iceberg has this for its own actions, which rewrite files and commit them themselves.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    staged, coordinator = uuid.uuid4().hex, jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    rows.writeTo(name).option("rewritten-file-scan-task-set-id", staged).append()
    try:
        return list(coordinator.fetchNewFiles(java, staged))
    finally:
        coordinator.clearRewrite(java, staged)
