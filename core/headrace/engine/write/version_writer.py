"""Write of changes into a table with a history: as versions of rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.engine.plan.stored_table import read_all_stored
from headrace.engine.write.history_plan import version_table
from headrace.engine.write.table_plan import TablePlan
from headrace.errors import DataError
from headrace.schema.projection import align
from headrace.sdk.changes import COMMITTED, UNAVAILABLE
from headrace.sdk.sink import Batch, Sink, WriteResult
from headrace.spark.sessions import materialize
from headrace.upsert.change_feed import is_feed
from headrace.upsert.versions import arrange, is_history, prepare_changes, select_versions, union_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.upsert.remembered_changes import RememberedChanges


def write_versions(
    table_plan: TablePlan,
    sink: Sink,
    changes: DataFrame,
    batch: Batch,
    hidden: RememberedChanges | None = None,
    *,
    keeps_hidden: bool = False,
) -> WriteResult:
    """Write the versions that changes of a table form with the stored ones.

    Changes without a commit time are deletes that headrace found itself: they happened now. ``hidden``: changes that no version shows, of
    earlier batches; ``keeps_hidden``: those of this batch are added to them.
    """
    from pyspark.sql import functions as F

    key, now_ms, session = table_plan.table.key, time.time_ns() // 10**6, changes.sparkSession
    if COMMITTED not in changes.columns:
        changes = changes.withColumn(COMMITTED, F.lit(now_ms))
    stored = read_versions(table_plan, sink, changes)
    changes = prepare_changes(changes, sink.config.track)
    columns = union_columns(changes, stored)
    changes = align(changes, columns)
    remembered = hidden.read(session, columns) if hidden else None
    arranged = arrange(changes, remembered, stored, key, table_plan.unavailable)
    with materialize(arranged) as lines:
        if hidden and keeps_hidden:
            hidden.add(lines, key, table_plan.marks.number)
        versions = select_versions(lines, now_ms)
        if not table_plan.unavailable and (stored is None or UNAVAILABLE not in stored.columns):
            versions = versions.drop(UNAVAILABLE)
        return sink.write(version_table(table_plan.table), versions, batch)


def read_versions(table_plan: TablePlan, sink: Sink, changes: DataFrame) -> DataFrame | None:
    """Return the stored versions in the session of the changes; None without a table. DataError for rows of another mode."""
    stored = read_all_stored(sink, table_plan.table, changes.sparkSession)
    if stored is not None and not is_history(stored):
        raise DataError(
            "has rows that are no versions: it was created in another mode",
            where=f"table {table_plan.table.name}, sink {sink.name}",
            fix="give the table another `target:`, or remove it and use a new checkpoint",
        )
    return stored


def reject_versions(table_plan: TablePlan, session: SparkSession) -> None:
    """Raise DataError if a table without a history has stored versions, or the changes of another table."""
    for table, sink, mode in table_plan.writes:
        stored = read_all_stored(sink, table, session) if mode == "upsert" else None
        if stored is not None and is_history(stored):
            raise DataError(
                f"was created in mode history, and mode {mode} is set now",
                where=f"table {table.name}, sink {sink.name}",
                fix="set `mode: history` for the sink to continue as before; for another mode, give the table another `target:`, or "
                "remove it",
            )
        if stored is not None and is_feed(stored):
            raise DataError(
                "is the change feed of another table",
                where=f"table {table.name}, sink {sink.name}",
                fix="give the table another `target:`",
            )
