"""Reads of change feeds by users."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.engine.commands.table_reads import find_sink, read_table
from headrace.engine.write.feed_writer import name_feed
from headrace.errors import ConfigError, NoSuchTableError
from headrace.upsert.change_feed import CHANGE_SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.plan.pipeline_plan import Plan

_NANOSECONDS = 1_000_000_000


def read_feed(plan: Plan, session: SparkSession, table: str, *, after: int | None, sink: str | None) -> DataFrame:
    """Return the changes of a table up to now, those after a sequence alone if one is given.

    Changes of later batches are not in it, however often it is read. ConfigError if changes may be removed already.
    """
    where = f"table {table}"
    if after is not None and not isinstance(after, int):
        raise ConfigError(
            f"after={after!r} is no `change_sequence`", where=where, fix="pass an int, or None for all changes"
        )
    name = find_feed_sink(plan, table, sink)
    try:
        feed = read_table(plan, session, name_feed(table), sink=name, as_of=None, own_columns=False)
    except NoSuchTableError as error:
        raise ConfigError("it has no changes yet", where=where, fix="run the pipeline, or correct the name") from error
    ends = feed.selectExpr(f"min({CHANGE_SEQUENCE})", f"max({CHANGE_SEQUENCE})").first()
    oldest, newest = ends if ends is not None else (None, None)
    if after is not None:
        _check_kept(plan.for_table(table), oldest, after, where)
    return feed.where(f"{CHANGE_SEQUENCE} > {after or 0:d} AND {CHANGE_SEQUENCE} <= {newest or 0:d}")


def find_feed_sink(plan: Plan, table: str, sink: str | None) -> str:
    """Return the name of the sink with the feed of a table. ConfigError without one."""
    if sink is not None:
        find_sink(plan, table, sink)
    names = [name for each, name in plan.for_table(table).sink_names.items() if each.config.changes]
    if found := [name for name in names if sink in (None, name)]:
        return found[0]
    fix = f"its sinks with `changes: true`: {', '.join(names)}" if names else "set `changes: true` for its sink"
    raise ConfigError("its sink keeps no changes", where=f"table {table}", fix=fix)


def _check_kept(plan: Plan, oldest: int | None, after: int, where: str) -> None:
    """Raise ConfigError if changes after a sequence may have been removed: no older change is left, and the time for them has passed.

    The newest of the old changes are never removed, so a reader that has them misses nothing.
    """
    kept = plan.settings.maintenance.policy.history_seconds
    if after >= time.time_ns() - int(kept * _NANOSECONDS):
        return
    if oldest is None or oldest > after:
        raise ConfigError(
            f"the changes after {after} may have been removed: changes are kept for {kept:.0f} seconds",
            where=where,
            fix="read the whole table, and then the changes from its newest `change_sequence` on; to keep changes for longer, raise "
            "`history` in `maintenance:`",
        )
