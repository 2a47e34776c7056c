"""Large files of which many rows are gone, written anew one at a time.

Iceberg's own action would take all of them at once, which is too much while a batch waits.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace_sinks.iceberg.marked_commit import commit_files
from headrace_sinks.iceberg.position_deletes import FILE_PATH_ID
from headrace_sinks.iceberg.staging import stage_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class WornFile:
    """A file of rows. ``share``: of how many of them positions say that they are gone, from 0 to 1."""

    path: str
    bytes: int
    share: float


def find_worn_file(spark: SparkSession, name: str, least_share: float, most_bytes: int | None) -> WornFile | None:
    """The file that has the most bytes of rows that are gone, among those with at least such a share of them."""
    from pyspark.sql import functions as F

    # Files of positions that are for one file of rows have its path as both bounds.
    bounds = [F.col(bound)[F.lit(FILE_PATH_ID)] for bound in ("lower_bounds", "upper_bounds")]
    positions = spark.table(f"{name}.delete_files").where("content = 1").where(bounds[0] == bounds[1])
    gone = positions.groupBy(F.decode(bounds[0], "UTF-8").alias("file_path")).agg(F.sum("record_count").alias("gone"))
    files = spark.table(f"{name}.data_files").select("file_path", "file_size_in_bytes", "record_count")
    share = F.col("gone") / F.col("record_count")
    worn = files.join(gone, "file_path").select("file_path", "file_size_in_bytes", share.alias("share"))
    worn = worn.where(F.col("share") >= least_share)
    if most_bytes is not None:
        worn = worn.where(F.col("file_size_in_bytes") <= most_bytes)
    row = worn.orderBy(F.desc(F.col("share") * F.col("file_size_in_bytes"))).first()
    return None if row is None else WornFile(row[0], row[1], min(1.0, row[2]))


def rewrite_file(spark: SparkSession, name: str, java: Any, path: str) -> str:
    """Commits a file's rows that are not gone in place of it; says what came of it.

    A batch by key that commits meanwhile is not in the way: the new file counts as one of the version that was read.
    """
    java.refresh()
    start = java.currentSnapshot()
    task = _find_task(java, path)
    if task is None:
        return "the file is gone"
    new = _write_anew(spark, name, java, task)
    # Newer deletes by key hold for it too, older ones did their work.
    rewrite = java.newRewrite().validateFromSnapshot(start.snapshotId()).dataSequenceNumber(start.sequenceNumber())
    rewrite.deleteFile(task.file())
    for delete in _list_own_deletes(spark, task):
        rewrite.deleteFile(delete)
    for file in new:
        rewrite.addFile(file)
    commit_files(spark, java, rewrite, new)
    kept = sum(file.recordCount() for file in new)
    return f"{kept} of {task.file().recordCount()} rows kept"


def _find_task(java: Any, path: str) -> Any:
    """What reads one file of a table, without the rows that are gone."""
    tasks = java.newScan().planFiles()
    try:
        found = tasks.iterator()
        while found.hasNext():
            task = found.next()
            if str(task.file().location()) == path:
                return task
    finally:
        tasks.close()
    return None


def _write_anew(spark: SparkSession, name: str, java: Any, task: Any) -> list[Any]:
    jvm: Any = spark._jvm  # noqa: SLF001
    staged, manager = uuid.uuid4().hex, jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()
    tasks = jvm.java.util.ArrayList()
    tasks.add(task)
    manager.stageTasks(java, staged, tasks)
    try:
        rows = spark.read.format("iceberg").option("scan-task-set-id", staged).load(name)
        return stage_files(spark, name, java, rows)
    finally:
        manager.removeTasks(java, staged)


def _list_own_deletes(spark: SparkSession, task: Any) -> list[Any]:
    """The files of positions that are for a task's file alone."""
    jvm: Any = spark._jvm  # noqa: SLF001
    return [delete for delete in task.deletes() if jvm.org.apache.iceberg.util.ContentFileUtil.isFileScoped(delete)]
