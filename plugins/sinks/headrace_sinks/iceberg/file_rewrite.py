"""Rewrite of large data files with many deleted rows, one file at a time.

Iceberg's own action would rewrite all of them together, which takes too long while a batch waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace_sinks.iceberg.marked_commit import commit_files
from headrace_sinks.iceberg.position_deletes import FILE_PATH_ID
from headrace_sinks.iceberg.staging import cache_table, stage_files
from headrace_sinks.iceberg.table_handle import TableHandle


@dataclass(frozen=True)
class FileWithDeletes:
    """Data file with deleted rows. ``delete_ratio``: the share of its rows that position deletes name, from 0 to 1."""

    path: str
    bytes: int
    delete_ratio: float


def find_file_with_deletes(handle: TableHandle, min_ratio: float, max_bytes: int | None) -> FileWithDeletes | None:
    """Find the data file with the most deleted bytes among those with at least this ratio of deleted rows."""
    from pyspark.sql import functions as F

    # Delete files that apply to one data file have its path as both bounds.
    bounds = [F.col(bound)[F.lit(FILE_PATH_ID)] for bound in ("lower_bounds", "upper_bounds")]
    positions = handle.read_metadata("delete_files").where("content = 1").where(bounds[0] == bounds[1])
    path = F.decode(bounds[0], "UTF-8").alias("file_path")
    deletes = positions.groupBy(path).agg(F.sum("record_count").alias("deletes"))
    files = handle.read_metadata("data_files").select("file_path", "file_size_in_bytes", "record_count")
    ratio = F.col("deletes") / F.col("record_count")
    found = files.join(deletes, "file_path").select("file_path", "file_size_in_bytes", ratio.alias("ratio"))
    found = found.where(F.col("ratio") >= min_ratio)
    if max_bytes is not None:
        found = found.where(F.col("file_size_in_bytes") <= max_bytes)
    row = found.orderBy(F.desc(F.col("ratio") * F.col("file_size_in_bytes"))).first()
    return None if row is None else FileWithDeletes(row[0], row[1], min(1.0, row[2]))


def rewrite_file(handle: TableHandle, path: str) -> str:
    """Replace a data file by one without its deleted rows; return a summary.

    A batch with equality deletes may commit at the same time: the new file has the sequence number of the snapshot that was read.
    """
    handle.refresh()
    start = handle.snapshot
    task = _find_scan_task(handle, path)
    if task is None:
        return "the file no longer exists"
    new = _stage_rows(handle, task)
    # Newer equality deletes apply to the new file as well; older ones have been applied.
    rewrite = handle.java.newRewrite().validateFromSnapshot(start.snapshotId())
    rewrite.dataSequenceNumber(start.sequenceNumber()).deleteFile(task.file())
    for delete in _list_file_scoped_deletes(handle, task):
        rewrite.deleteFile(delete)
    for file in new:
        rewrite.addFile(file)
    commit_files(handle, rewrite, new)
    kept = sum(file.recordCount() for file in new)
    return f"{kept} of {task.file().recordCount()} rows kept"


def _find_scan_task(handle: TableHandle, path: str) -> Any:
    """Find the scan task of one data file, which applies its deletes; None when the table no longer has the file."""
    tasks = handle.java.newScan().planFiles()
    try:
        found = tasks.iterator()
        while found.hasNext():
            task = found.next()
            if str(task.file().location()) == path:
                return task
    finally:
        tasks.close()
    return None


def _stage_rows(handle: TableHandle, task: Any) -> list[Any]:
    """Write the rows of a scan task to new data files, and return the files."""
    manager, tasks = handle.jvm.org.apache.iceberg.spark.ScanTaskSetManager.get(), handle.jvm.java.util.ArrayList()
    tasks.add(task)
    with cache_table(handle) as staged:
        manager.stageTasks(handle.java, staged, tasks)
        try:
            rows = handle.spark.read.format("iceberg").option("scan-task-set-id", staged).load(staged)
            return stage_files(handle, rows)
        finally:
            manager.removeTasks(handle.java, staged)


def _list_file_scoped_deletes(handle: TableHandle, task: Any) -> list[Any]:
    """List the delete files that apply to the task's data file only."""
    is_file_scoped = handle.jvm.org.apache.iceberg.util.ContentFileUtil.isFileScoped
    return [delete for delete in task.deletes() if is_file_scoped(delete)]
