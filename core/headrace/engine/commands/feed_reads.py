"""Reads of change feeds by users."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.engine.commands.table_reads import find_sink, read_table
from headrace.engine.write.feed_writer import name_feed
from headrace.errors import ConfigError, NoSuchTableError
from headrace.spark.columns import quote_name
from headrace.upsert.change_feed import CHANGE_SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.plan.pipeline_plan import Plan

_NANOSECONDS = 1_000_000_000


def read_feed(plan: Plan, session: SparkSession, table: str, *, after: int | None, sink: str | None) -> DataFrame:
    """Return the changes of a table, those after a sequence alone if one is given. ConfigError if some of them may be removed already."""
    where = f"table {table}"
    name = find_feed_sink(plan, table, sink)
    try:
        feed = read_table(plan, session, name_feed(table), sink=name, as_of=None, own_columns=False)
    except NoSuchTableError as error:
        raise ConfigError("it has no changes yet", where=where, fix="run the pipeline, or correct the name") from error
    if after is None:
        return feed
    _check_kept(plan.for_table(table), feed, after, where)
    return feed.where(f"{quote_name(CHANGE_SEQUENCE)} > {after:d}")


def find_feed_sink(plan: Plan, table: str, sink: str | None) -> str:
    """Return the name of the sink with the feed of a table. ConfigError without one."""
    if sink is not None:
        find_sink(plan, table, sink)
    names = [name for each, name in plan.for_table(table).sink_names.items() if each.config.changes]
    if found := [name for name in names if sink in (None, name)]:
        return found[0]
    fix = f"its sinks with `changes: true`: {', '.join(names)}" if names else "set `changes: true` for its sink"
    raise ConfigError("its sink keeps no changes", where=f"table {table}", fix=fix)


def _check_kept(plan: Plan, feed: DataFrame, after: int, where: str) -> None:
    """Raise ConfigError if changes after a sequence may have been removed: no older change is left, and the time for them has passed.

    The newest of the old changes are never removed, so a reader that has them misses nothing.
    """
    kept = plan.settings.maintenance.policy.history_seconds
    if after >= time.time_ns() - int(kept * _NANOSECONDS):
        return
    oldest = feed.agg({CHANGE_SEQUENCE: "min"}).first()
    if oldest is None or oldest[0] is None or oldest[0] > after:
        raise ConfigError(
            f"the changes after {after} may have been removed: changes are kept for {kept:.0f} seconds",
            where=where,
            fix="read the whole table, and then the changes from its newest `change_sequence` on; to keep changes for longer, raise "
            "`history` in `maintenance:`",
        )
