"""Check of hidden columns against tables that a sink continues: their rows did not pass the transforms."""

from __future__ import annotations

from collections.abc import Collection

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Target
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.seen_columns import SeenColumns
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import TablePlan
from headrace.errors import ConfigError


def check_hidden_columns(
    plan: Plan, target: Target, table_plan: TablePlan, reader: ChangeReader, sinks: SinkWriter
) -> None:
    """Raise ConfigError if a sink continues the rows of another writer, and transforms hide columns of the table."""
    if not plan.hides_values:
        return
    session, seen = sinks.session_of(target.name), SeenColumns()
    notes = {plan.name_of(sink): sink.check_stored(session, table_plan.table) for sink in table_plan.upsert_sinks}
    for events, route in target.sources if any(notes.values()) else ():
        reader.read_changes(session, events, route, seen=seen)
    hidden = {column for masks in seen.masks.values() for column in masks.hidden}
    if not table_plan.columns:  # The batch has only truncates, which show no column that a transform hides.
        hidden = {f"the columns of {t.name}" for t in plan.transforms_of(target.name) if t.hides_values}
    for sink, note in notes.items():
        check_continued(target.name, sink, note, hidden)


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
