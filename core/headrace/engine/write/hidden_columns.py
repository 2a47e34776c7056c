"""Check of hidden columns against tables that a sink continues: their rows did not pass the transforms."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Target
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.seen_columns import SeenColumns
from headrace.engine.read.tagged_columns import tag_columns
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import TablePlan
from headrace.errors import ConfigError
from headrace.sdk.changes import PREFIX, Changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_hidden_columns(
    plan: Plan, target: Target, table_plan: TablePlan, reader: ChangeReader, sinks: SinkWriter
) -> None:
    """Raise ConfigError if a sink continues the rows of another writer, and transforms hide columns of the table."""
    if not (plan.hides_values or plan.tags):
        return
    session, seen = sinks.session_of(target.name), SeenColumns()
    notes = {plan.name_of(sink): sink.check_stored(session, table_plan.table) for sink in table_plan.upsert_sinks}
    for events, route in target.sources if any(notes.values()) else ():
        reader.read_changes(session, events, route, seen=seen)
    hidden = {column for masks in seen.masks.values() for column in masks.hidden}
    for sink in table_plan.upsert_sinks:
        name = plan.name_of(sink)
        stored = sinks.read_stored(sink, table_plan.table) if notes[name] else None
        check_continued(target.name, name, notes[name], hidden | find_hidden(plan, target.name, stored))


def find_hidden(plan: Plan, table: str, stored: DataFrame | None) -> set[str]:
    """Return the columns of a stored table that have a tag, or that a transform hides; a batch may lack these columns."""
    if stored is None:
        return set()
    rows = stored.drop(*[name for name in stored.columns if name.startswith(PREFIX)])
    changes = tag_columns(plan.tags, Changes(rows, envelope=False, table=table))
    hiding = (t for t in plan.transforms_of(table) if t.hides_values and t.applies_to(table))
    return set().union(*changes.tags.values(), *(transform.hides(changes) for transform in hiding))


def check_continued(table: str, sink: str, note: str | None, hidden: Collection[str]) -> None:
    """Raise ConfigError if a sink continues the rows of another writer (``note``), and there are hidden columns.

    The stored rows would keep their values, and a hidden key would not find them.
    """
    if note and hidden:
        raise ConfigError(
            f"the sink continues rows of another writer, which no transform has changed, and transforms hide {', '.join(sorted(hidden))}",
            where=f"table {table}, sink {sink}",
            fix="load the rows into a new table, or hide no column of this one",
        )
