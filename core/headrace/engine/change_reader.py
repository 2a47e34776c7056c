"""A batch's records as events, and events as transformed changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.compatibility import reject_incompatible
from headrace.engine.decode import RecordDecoder, Records
from headrace.engine.plan import Plan, SeenColumns
from headrace.engine.routing import Route, Target
from headrace.engine.stored_table import read_stored
from headrace.errors import DataError, HeadraceError
from headrace.sdk.changes import ERROR, KEY, Changes
from headrace.sdk.events import Events
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import Table
from headrace.sdk.source import RangedSource, SourceContext
from headrace.upsert.unavailable import fail_on_unavailable, mark_unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ChangeReader:
    """Reads events and changes as a plan's plugins make them. Nothing but schemas is read by it: what it gives is read later."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def read_events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        """A batch's frame as events by topic."""
        source = self._plan.source
        if not source.yields_records:
            return source.events(context, frame)
        return self.decode(context, source.records(context, frame), apart=True)

    def read_replay(self, context: SourceContext) -> list[Events]:
        """The events that ``context.replay`` names, by topic."""
        source, ranges = self._plan.source, context.replay or {}
        frame = context.spark.range(0).drop("id")
        if isinstance(source, RangedSource):
            spans = {json.dumps(span): span for several in ranges.values() for span in several}.values()
            frame = reduce(lambda a, b: a.unionByName(b), [source.read(context.spark, *span) for span in spans])
        return [events for events in self.read_events(context, frame) if events.topic in ranges]

    def decode(self, context: SourceContext, topics: Mapping[str, Records], *, apart: bool = False) -> list[Events]:
        """Records as events by topic; ``topics`` has what reads each one's. ``apart``: one that fails leaves the others."""
        plan = self._plan
        assert plan.value_format is not None, "a source of records has a value format; built so"
        decoder = RecordDecoder(plan.value_format, plan.key_format, plan.metadata_topic, plan.routes.key_columns)
        return decoder.decode(context, topics, apart=apart)

    def read_changes(
        self,
        session: SparkSession,
        events: Events,
        route: Route,
        *,
        seen: SeenColumns | None = None,
        every_field: bool = False,
        has_unavailable: bool = False,
    ) -> Changes:
        """A topic's events as transformed changes.

        ``seen`` notes what each transform was given; ``every_field`` reads every field, not only those that tables need;
        ``has_unavailable``: some events leave values out, else a task that meets one fails.
        """
        dialect = self._plan.dialect_of(events)
        whole_before = every_field or needs_row_before(self._plan, events, route)
        key = route.key if events.schema.fields else ()
        schema = dialect.read_schema(events.schema, key=key, whole_before=whole_before)
        changes = dialect.changes(events, events.load(session, schema), key)
        tests = dialect.unavailable_tests(events.schema)
        changes = (mark_unavailable if has_unavailable else fail_on_unavailable)(changes, tests)
        for transform in self._plan.transforms:
            if seen is not None:
                seen.setdefault(transform, set()).update(changes.row_columns)
            try:
                changes = transform.apply(changes)
            except HeadraceError as error:
                error.at(f"transform {transform.name}, topic {events.topic}")
                raise
        return reject_missing_keys(changes)

    def read_target(
        self, session: SparkSession, target: Target, *, has_unavailable: bool, every_field: bool = False
    ) -> Changes:
        """The changes of all topics of a table; those that its columns cannot hold are rejected where the file rules it."""
        parts = [
            self.read_changes(session, events, route, every_field=every_field, has_unavailable=has_unavailable)
            for events, route in target.sources
        ]
        changes = union_changes(parts, target.name)
        if RejectReason.SCHEMA_INCOMPATIBLE not in self._plan.settings.dead_letters:
            return changes
        stored = [read_stored(sink, Table(target.name), session) for sink in self._plan.sinks]
        return reduce(lambda rest, table: reject_incompatible(table.schema, rest), filter(None, stored), changes)

    def may_leave_out(self, target: Target) -> bool:
        """Whether events of a table's topics can have unavailable values at all."""
        return any(self._plan.dialect_of(events).unavailable_tests(events.schema) for events, _ in target.sources)


def needs_row_before(plan: Plan, events: Events, route: Route) -> bool:
    """Whether the whole row before a change has to be read, and not its key alone.

    Envelopes that stay envelopes are kept whole; without any key, what a delete removes is known from there.
    """
    becomes_rows = any(transform.flattens for transform in plan.transforms)
    has_key = bool(route.key or events.key_schema)
    return not becomes_rows or not has_key or any(transform.reads_before for transform in plan.transforms)


def reject_missing_keys(changes: Changes) -> Changes:
    """The changes; one without a value in a key column is rejected as KEY_MISSING."""
    from pyspark.sql import functions as F

    if not changes.key_columns:
        return changes
    key = F.col(KEY)
    is_missing = reduce(lambda a, b: a | b, [key.getField(k).isNull() for k in changes.key_columns], key.isNull())
    error = F.coalesce(F.col(ERROR), F.when(is_missing, F.lit(RejectReason.KEY_MISSING)))
    return Changes(changes.frame.withColumn(ERROR, error), changes.envelope)


def union_changes(parts: list[Changes], table: str) -> Changes:
    """The changes of several topics as those of one table. DataError when they are not of one shape or have other keys.

    Those of a topic without a column, of which no record could be read, are of any.
    """
    readable = [part for part in parts if part.event_columns]
    if len({part.envelope for part in readable}) > 1:
        raise DataError(
            "some topics bring envelopes and some bring rows",
            where=f"table {table}",
            fix="add `- unwrap: {}` to `transforms:`",
        )
    if len({tuple(part.key_columns) for part in readable}) > 1:
        raise DataError(
            "its topics have different key columns", where=f"table {table}", fix="give them a `target:` each"
        )
    parts = [*readable, *(part for part in parts if part not in readable)]
    frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), [part.frame for part in parts])
    return replace(parts[0], frame=frame)
