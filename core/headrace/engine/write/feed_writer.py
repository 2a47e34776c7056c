"""Change feeds of tables, with ``changes: true``: their options, and the write of a batch's changes before its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.engine.plan.stored_table import read_stored
from headrace.engine.write.history_plan import name_history
from headrace.errors import ConfigError, DataError
from headrace.sdk.sink import Batch, Sink, Table
from headrace.spark.columns import fold_name
from headrace.upsert.change_feed import (
    FEED_COLUMNS,
    FeedSequence,
    feed_key,
    is_feed,
    select_changes,
    select_expired,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.engine.plan.pipeline_plan import Plan

#: Batches of a table between two removals of old changes.
_BATCHES_BETWEEN_REMOVALS = 50
_NANOSECONDS = 1_000_000_000


def name_feed(table: str) -> str:
    """Return the name of the table with the changes of a table."""
    return f"{table}_changes"


#: End of the name of a second table → whether a sink keeps it.
_SECOND_TABLES: dict[str, Callable[[Sink], bool]] = {
    name_history(""): lambda sink: sink.config.mode == "both",
    name_feed(""): lambda sink: sink.config.changes,
}


def feed_table(table: Table) -> Table:
    """Return the table with the changes of a table."""
    return Table(name_feed(table.name), feed_key(table.key))


def find_first_table(plan: Plan, name: str) -> str:
    """Return the table whose batches write a second table, a feed or a history; the name itself for other tables."""
    for suffix, is_kept in _SECOND_TABLES.items():
        first = name.removesuffix(suffix)
        if first != name and any(is_kept(sink) for sink in plan.for_table(first).sinks):
            return first
    return name


def check_feed_options(plan: Plan, sink: Sink) -> None:
    """Raise ConfigError for a sink that has no rows before and after a change."""
    if not sink.config.changes:
        return
    where, mode = f"sink {plan.name_of(sink)}", sink.config.mode
    can_keep = sink.capabilities.upsert and sink.capabilities.delete and sink.capabilities.readable
    if not can_keep or mode not in (None, "upsert", "both"):
        what = f"`changes: true` keeps the changes of current rows, and `mode: {mode}` is set"
        if not can_keep:
            what = "it keeps no current rows, so `changes: true` has no rows before a change"
        raise ConfigError(what, where=where, fix="remove `changes`; or set `mode: upsert` for a sink that keeps tables")


def check_feed(sink: Sink, table: Table, columns: Sequence[str]) -> None:
    """Raise DataError or ConfigError if a sink cannot keep the changes of a table."""
    names = {fold_name(name): name for name in columns}
    if reserved := [names[name] for name in FEED_COLUMNS if name in names]:
        raise DataError(
            f"its rows have the column {reserved[0]!r}, which a change feed adds",
            where=f"table {table.name}",
            fix="rename the column: `transforms: - rename: {columns: {…}}`; or remove `changes: true`",
        )
    sink.check_table(feed_table(table), "upsert")


class FeedWriter:
    """Writer of the changes that a batch makes to a table, into the table's feed in the same sink.

    The changes are written before the batch: afterwards, the rows before the batch are gone. The feed has the mark of the batch, so
    a repeated batch adds no change twice.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def add(self, sink: Sink, table: Table, rows: DataFrame, batch: Batch, sequence: FeedSequence) -> None:
        """Add the changes of rows that are about to be written."""
        session = rows.sparkSession
        target, feed = feed_table(table), read_stored(sink, feed_table(table), session)
        if feed is not None and not is_feed(feed):
            raise DataError(
                f"the table {target.name} exists, and is not its change feed",
                where=f"table {table.name}, sink {self._plan.name_of(sink)}",
                fix="give one of the two tables another `target:`, or remove `changes: true`",
            )
        number = sequence.next(feed)
        changes = select_changes(rows, read_stored(sink, table, session), table.key, number)
        if feed is not None and batch.id % _BATCHES_BETWEEN_REMOVALS == 0:
            kept = int(self._plan.settings.maintenance.policy.history_seconds * _NANOSECONDS)
            if (expired := select_expired(feed, number - kept)) is not None:
                changes = changes.unionByName(expired, allowMissingColumns=True)
        sink.write(target, changes, batch)
