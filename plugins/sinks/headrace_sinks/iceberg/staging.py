"""Data files that Iceberg writes for a table without committing them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from headrace_sinks.iceberg.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_files(handle: TableHandle, rows: DataFrame) -> list[Any]:
    """Write rows to data files as the table's properties say, and return the files.

    Iceberg's own maintenance actions write this way: they rewrite files and commit them in a separate step.
    """
    staged, coordinator = uuid.uuid4().hex, handle.jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    rows.writeTo(handle.name).option("rewritten-file-scan-task-set-id", staged).append()
    try:
        return list(coordinator.fetchNewFiles(handle.java, staged))
    finally:
        coordinator.clearRewrite(handle.java, staged)
