"""Upserts as row deltas: one commit adds data files and the deletes of the rows that they replace.

MERGE plans every column in every branch, and reads the table as well. A row delta writes the wide rows as they are. To find the
rows to replace it reads only the key columns, or nothing when the batch is newer than all rows of the table.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.sdk import Batch, Table
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.sessions import materialize_with
from headrace_sinks.iceberg.equality_deletes import can_delete_by_key, write_equality_deletes
from headrace_sinks.iceberg.marked_commit import commit_files, commit_with_mark
from headrace_sinks.iceberg.merge import merge
from headrace_sinks.iceberg.position_deletes import is_never_partitioned, read_row_positions, write_position_deletes
from headrace_sinks.iceberg.staging import stage_files
from headrace_sinks.iceberg.table_handle import MARK, TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The snapshot property with the highest position that the table ever had.
HIGHEST_POSITION = "headrace.position"
#: Rows of a batch above which MERGE is as fast, and above which readers would hold too many deleted keys in memory.
MAX_ROWS = 50_000
#: Columns and rows of a table above which MERGE takes longer than finding row positions. Below, MERGE needs fewer jobs.
_MANY_COLUMNS, _MANY_ROWS = 100, 500_000
#: Rows of one data file: few files are faster to read, and several are faster to write.
_FILE_ROWS = 10_000
_NEWER = "_headrace_newer"


def supports_row_delta(handle: TableHandle) -> bool:
    """Return whether the table can have row deltas; other tables are merged."""
    properties = handle.properties
    return (
        handle.snapshot is not None
        and handle.format_version == "2"
        and (properties.get("write.format.default") or "parquet") == "parquet"
        and is_never_partitioned(handle)
        and properties.get("write.wap.enabled") != "true"  # write-audit-publish commits to a branch
        and _is_on_hadoop_file_system(handle)
    )


def upsert(handle: TableHandle, table: Table, rows: DataFrame, batch: Batch, *, by_key: bool) -> None:
    """Commit the rows of a batch that are newer than the stored rows.

    ``by_key``: all readers read equality deletes. Small and narrow tables are merged, as MERGE needs fewer jobs.
    """
    from pyspark.sql import functions as F

    by_key = by_key and can_delete_by_key(handle, table)
    if _takes_large_batches(handle) or not (by_key or _is_large(handle)):
        commit_with_mark(handle.spark, batch, lambda: merge(handle, table, rows))
        return
    with materialize_with(rows, count=F.count("*"), lowest=F.min(POSITION), highest=F.max(POSITION)) as (stable, seen):
        if not seen["count"]:
            return
        stored = (find_highest_position(handle) or _read_highest_position(handle) or "") if by_key else ""
        highest = {HIGHEST_POSITION: max(seen["highest"], stored)} if by_key else {}
        is_newer = by_key and seen["lowest"] > stored
        if seen["count"] > MAX_ROWS or not (is_newer or _is_large(handle)):
            commit_with_mark(handle.spark, batch, lambda: merge(handle, table, stable), highest)
            return
        few = stable.coalesce(-(-seen["count"] // _FILE_ROWS))
        delta = RowDelta(handle, table)
        if is_newer:
            delta.replace_by_key(few)
        else:
            delta.replace_by_position(few)
        delta.commit({MARK: batch.mark, **highest})


def find_highest_position(handle: TableHandle) -> str | None:
    """Find the highest position of the table's rows in its newest commit of rows; None when that commit does not have it."""
    for snapshot in handle.walk_snapshots():
        if (highest := snapshot.summary().get(HIGHEST_POSITION)) is not None:
            return str(highest)
        if snapshot.operation() not in ("replace", "delete"):  # another writer added rows
            return None
    return None


class RowDelta:
    """Commit of new rows and deletes. Iceberg rejects it when another writer commits rows after the table was loaded."""

    def __init__(self, handle: TableHandle, table: Table) -> None:
        self._handle, self._table = handle, table
        self._start = handle.snapshot.snapshotId()
        self._update = handle.java.newRowDelta()
        self._files: list[Any] = []

    def replace_by_key(self, rows: DataFrame) -> None:
        """Replace all stored rows that have the keys of ``rows``. All rows are newer than the stored rows."""
        self._add_rows(rows)
        self._add_deletes(write_equality_deletes(self._handle, rows, self._table))

    def replace_by_position(self, rows: DataFrame) -> None:
        """Replace the stored rows that are older than the rows of their keys, and drop the rows that are late."""
        from pyspark.sql import functions as F

        stored = read_row_positions(self._handle, self._start, [*self._table.key, POSITION])
        positions, late = self._find_stored(rows, stored), F.count_if(~F.col(_NEWER))
        files_as_json = F.to_json(F.collect_set(F.when(F.col(_NEWER), F.col("_file"))))
        with materialize_with(positions, files=files_as_json, late=late) as (found, seen):
            files = json.loads(seen["files"])
            if seen["late"]:
                keys = list(self._table.key)
                rows = rows.join(
                    F.broadcast(found.where(~F.col(_NEWER)).select(*map(quote_name, keys))), keys, "left_anti"
                )
            self._add_rows(rows)
            if files:
                self._add_deletes(write_position_deletes(self._handle, found.where(_NEWER)))
                self._update.validateDataFilesExist(files)

    def commit(self, properties: dict[str, str]) -> None:
        """Commit rows and deletes in one snapshot, or raise and leave no file."""
        self._update.validateFromSnapshot(self._start)
        expressions = self._handle.jvm.org.apache.iceberg.expressions.Expressions
        self._update.conflictDetectionFilter(expressions.alwaysTrue())
        # Delete files of other writers are no conflict: this commit deletes the same rows, or does not change them.
        self._update.validateNoConflictingDataFiles()
        for key, value in properties.items():
            self._update.set(key, value)
        commit_files(self._handle, self._update, self._files)

    def _find_stored(self, rows: DataFrame, stored: DataFrame) -> DataFrame:
        """Find the positions of the stored rows of the rows' keys, and whether the batch's row is newer."""
        from pyspark.sql import functions as F

        keys = rows.select(*map(quote_name, self._table.key), F.col(POSITION).alias("_headrace_new"))
        newer = F.col(POSITION).isNull() | (F.col("_headrace_new") > F.col(POSITION))
        return stored.join(F.broadcast(keys), list(self._table.key)).withColumn(_NEWER, newer)

    def _add_rows(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as F

        for file in stage_files(self._handle, rows.where(~F.col(DELETED)).drop(DELETED)):
            self._update.addRows(file)
            self._files.append(file)

    def _add_deletes(self, files: list[Any]) -> None:
        for file in files:
            self._update.addDeletes(file)
            self._files.append(file)


def _read_highest_position(handle: TableHandle) -> str | None:
    from pyspark.sql import functions as F

    row = handle.read().agg(F.max(POSITION)).first()
    return row[0] if row else None


def _takes_large_batches(handle: TableHandle) -> bool:
    """Return whether the last batch was too large for a row delta: the next one probably is as large."""
    return int(handle.snapshot.summary().get("added-records") or 0) > MAX_ROWS


def _is_large(handle: TableHandle) -> bool:
    rows = int(handle.snapshot.summary().get("total-records") or 0)
    return rows >= _MANY_ROWS or len(handle.java.schema().columns()) >= _MANY_COLUMNS


def _is_on_hadoop_file_system(handle: TableHandle) -> bool:
    """Return whether a Hadoop file system reaches the table: Spark writes position deletes with it."""
    conf = handle.spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    try:
        handle.jvm.org.apache.hadoop.fs.Path(handle.java.location()).getFileSystem(conf)
    except Exception:  # noqa: BLE001 - only the catalog's own FileIO supports the scheme
        return False
    return True
