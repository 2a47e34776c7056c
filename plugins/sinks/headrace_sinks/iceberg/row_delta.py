"""Upserts in one commit of two kinds of files: new rows, and deletes of what they replace.

MERGE makes a plan with every column in every branch, and reads the table beside it. Here the wide rows are written as they are; to
find what they replace takes the key columns alone, or nothing where a batch is newer than all that the table has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch, Table
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.sessions import materialize_with
from headrace_sinks.iceberg.equality_deletes import can_delete_by_key, write_keys
from headrace_sinks.iceberg.iceberg_catalog import format_version
from headrace_sinks.iceberg.marked_commit import MARK, commit_files, commit_with_mark
from headrace_sinks.iceberg.merge import merge
from headrace_sinks.iceberg.position_deletes import has_one_partition, read_places, write_places
from headrace_sinks.iceberg.staging import stage_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The snapshot property that has the highest position that the table ever had.
HIGHEST = "headrace.position"
#: Rows of a batch above which MERGE is as quick, and readers would have to keep too many keys in memory.
MOST_ROWS = 50_000
#: Columns and rows of a table from which on MERGE takes longer than to look for places: below, fewer jobs win.
_MANY_COLUMNS, _MANY_ROWS = 100, 500_000
#: Rows of one file: few files are quicker to read than many, and more than one is quicker to write where there is much.
_FILE_ROWS = 10_000
_NEWER = "_headrace_newer"


def can_have_deltas(spark: SparkSession, java: Any) -> bool:
    """Whether a table can have such commits; others are merged."""
    properties = java.properties()
    return (
        java.currentSnapshot() is not None
        and format_version(java) == "2"
        and (properties.get("write.format.default") or "parquet") == "parquet"
        and has_one_partition(java)
        and properties.get("write.wap.enabled") != "true"  # whoever audits what is written wants it on a branch
        and _is_hadoops(spark, java)
    )


def upsert(
    spark: SparkSession, name: str, java: Any, table: Table, rows: DataFrame, batch: Batch, *, by_key: bool
) -> None:
    """Commits what of a batch is newer than the table.

    ``by_key``: whoever reads the table reads equality deletes. Tables that are small and narrow are merged: MERGE takes fewer jobs.
    """
    from pyspark.sql import functions as F

    by_key = by_key and can_delete_by_key(java, table)
    if _takes_large_batches(java) or not (by_key or _is_large(java)):
        commit_with_mark(spark, batch, lambda: merge(spark, name, table, rows))
        return
    with materialize_with(rows, count=F.count("*"), lowest=F.min(POSITION), highest=F.max(POSITION)) as (stable, seen):
        if not seen["count"]:
            return
        stored = (find_noted_position(java) or _read_highest(spark.table(name)) or "") if by_key else ""
        highest = {HIGHEST: max(seen["highest"], stored)} if by_key else {}
        is_newer = by_key and seen["lowest"] > stored
        if seen["count"] > MOST_ROWS or not (is_newer or _is_large(java)):
            commit_with_mark(spark, batch, lambda: merge(spark, name, table, stable), highest)
            return
        few = stable.coalesce(-(-seen["count"] // _FILE_ROWS))
        delta = RowDelta(spark, name, java, table)
        if is_newer:
            delta.replace_by_key(few)
        else:
            delta.replace_by_position(few)
        delta.commit({MARK: batch.mark, **highest})


def find_noted_position(java: Any) -> str | None:
    """The highest position of a table's rows, as its newest commit of rows says it; None where it was written another way."""
    snapshot = java.currentSnapshot()
    for _ in range(MARK_SEARCH_DEPTH):
        if snapshot is None:
            return None
        if (highest := snapshot.summary().get(HIGHEST)) is not None:
            return str(highest)
        parent = snapshot.parentId()
        if parent is None or snapshot.operation() not in ("replace", "delete"):  # somebody's rows
            return None
        snapshot = java.snapshot(parent)
    return None


class RowDelta:
    """A commit to a table as it was loaded: rows that somebody else commits meanwhile refuse it."""

    def __init__(self, spark: SparkSession, name: str, java: Any, table: Table) -> None:
        self._spark, self._name, self._java, self._table = spark, name, java, table
        self._start = java.currentSnapshot().snapshotId()
        self._update = java.newRowDelta()
        self._files: list[Any] = []

    def replace_by_key(self, rows: DataFrame) -> None:
        """Rows in place of whatever the table has of their keys. All are newer."""
        self._add_rows(rows)
        self._add_deletes(write_keys(self._spark, self._name, self._java, rows, self._table))

    def replace_by_position(self, rows: DataFrame) -> None:
        """Those of the rows that are newer than the table's, in place of these."""
        from pyspark.sql import functions as F

        stored = read_places(self._spark, self._name, self._start, [*self._table.key, POSITION])
        places, late = self._find_stored(rows, stored), F.count_if(~F.col(_NEWER))
        files_as_text = F.to_json(F.collect_set(F.when(F.col(_NEWER), F.col("_file"))))
        with materialize_with(places, files=files_as_text, late=late) as (found, seen):
            files = json.loads(seen["files"])
            if seen["late"]:
                keys = list(self._table.key)
                rows = rows.join(
                    F.broadcast(found.where(~F.col(_NEWER)).select(*map(quote_name, keys))), keys, "left_anti"
                )
            self._add_rows(rows)
            if files:
                self._add_deletes(write_places(self._spark, self._java, found.where(_NEWER)))
                self._update.validateDataFilesExist(files)

    def commit(self, properties: dict[str, str]) -> None:
        """Commits all of it at once, or raises and leaves no file."""
        jvm: Any = self._spark._jvm  # noqa: SLF001
        self._update.validateFromSnapshot(self._start)
        self._update.conflictDetectionFilter(jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
        self._update.validateNoConflictingDataFiles()
        self._update.validateNoConflictingDeleteFiles()
        for key, value in properties.items():
            self._update.set(key, value)
        commit_files(self._spark, self._java, self._update, self._files)

    def _find_stored(self, rows: DataFrame, stored: DataFrame) -> DataFrame:
        """The places of the stored rows whose keys the rows have, and whether the row that comes is newer."""
        from pyspark.sql import functions as F

        keys = rows.select(*map(quote_name, self._table.key), F.col(POSITION).alias("_headrace_new"))
        newer = F.col(POSITION).isNull() | (F.col("_headrace_new") > F.col(POSITION))
        return stored.join(F.broadcast(keys), list(self._table.key)).withColumn(_NEWER, newer)

    def _add_rows(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as F

        for file in stage_files(self._spark, self._name, self._java, rows.where(~F.col(DELETED)).drop(DELETED)):
            self._update.addRows(file)
            self._files.append(file)

    def _add_deletes(self, files: list[Any]) -> None:
        for file in files:
            self._update.addDeletes(file)
            self._files.append(file)


def _read_highest(table: DataFrame) -> str | None:
    from pyspark.sql import functions as F

    row = table.agg(F.max(POSITION)).first()
    return row[0] if row else None


def _takes_large_batches(java: Any) -> bool:
    """Whether the last batch was too large for this: the next is taken to be as large."""
    return int(java.currentSnapshot().summary().get("added-records") or 0) > MOST_ROWS


def _is_large(java: Any) -> bool:
    rows = int(java.currentSnapshot().summary().get("total-records") or 0)
    return rows >= _MANY_ROWS or len(java.schema().columns()) >= _MANY_COLUMNS


def _is_hadoops(spark: SparkSession, java: Any) -> bool:
    """Whether Hadoop's file systems reach the table: Spark writes files of positions there."""
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        jvm.org.apache.hadoop.fs.Path(java.location()).getFileSystem(
            spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        )
    except Exception:  # noqa: BLE001 - a scheme that only the catalog's own IO knows
        return False
    return True
