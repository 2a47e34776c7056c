"""Check of views against the columns of their tables, without reading data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.engine.batch.view_rows import find_key, open_tables
from headrace.engine.commands.check_item import CheckItem
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.read.change_reader import ChangeReader
from headrace.errors import HeadraceError
from headrace.sdk.events import Events
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def check_view_columns(plan: Plan, session: SparkSession, topics: Sequence[Events]) -> Iterator[CheckItem]:
    """Yield the views, with an error for SQL that does not fit the columns of the topics' tables."""
    schemas = _list_schemas(plan, session, topics) if plan.views else {}
    for view in plan.views:
        what = f"view {view.name}"
        if missing := [table for table in view.query.tables if table not in schemas]:
            text = f"{what} reads the table {missing[0]!r}, which no topic becomes yet: {did_you_mean(missing[0], schemas)}"
            yield CheckItem("warning", text)
            continue
        frames = {table: session.createDataFrame([], schemas[table]) for table in view.query.tables}
        try:
            with open_tables(session, view, frames) as tables:
                rows = tables.all_rows()
                key = find_key(view, rows.columns)
                tables.check_touched_keys()
        except HeadraceError as error:
            yield CheckItem(what, error.what, error)
            continue
        schemas[view.name] = rows.schema
        how = ", computed whole" if view.is_full else ""
        found = f"key {', '.join(key)}, columns {', '.join(rows.columns)}, from {', '.join(view.query.tables)}{how}"
        yield CheckItem(what, found)


def _list_schemas(plan: Plan, session: SparkSession, topics: Sequence[Events]) -> dict[str, StructType]:
    """Return table → its columns, for the topics that can be read."""
    from pyspark.sql.types import StructType

    schemas: dict[str, StructType] = {}
    for events in topics:
        route = plan.routes.of(events.topic, events.part)
        if route is None or route.error or events.error or plan.metadata_topic(events.topic, events.schema):
            continue
        try:
            changes = ChangeReader(plan.for_table(route.table)).read_changes(session, events, route)
        except HeadraceError:  # The check of its topic reports it.
            continue
        schemas[route.table] = StructType([changes.frame.schema[name] for name in changes.event_columns])
    return schemas
