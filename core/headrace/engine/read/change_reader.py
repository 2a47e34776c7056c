"""Reading of a batch: records to events, events to transformed changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from headrace.checkpoint.source_tables import SourceTables
from headrace.dead_letters.rows import keep_numbers, number_in_file
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Route, Target
from headrace.engine.plan.stored_table import read_stored
from headrace.engine.read.change_keys import match_key_spelling, reject_missing_keys
from headrace.engine.read.column_free_batches import reject_without_columns
from headrace.engine.read.column_order import find_order_fields, order_changes, reject_tombstones
from headrace.engine.read.dead_letter_events import load_for_dead_letters
from headrace.engine.read.decoded_bytes import drop_decoded_bytes, drop_decoded_headers
from headrace.engine.read.key_updates import split_key_updates
from headrace.engine.read.lineage_log import LineageLog
from headrace.engine.read.other_tables import reject_other_tables
from headrace.engine.read.part_union import transform_parts
from headrace.engine.read.record_decoder import RecordDecoder, Records
from headrace.engine.read.refused_fields import reject_refused_fields
from headrace.engine.read.reserved_names import reject_lookalikes, reject_own_names
from headrace.engine.read.seen_columns import SeenColumns
from headrace.engine.read.topic_splitter import PART, SplitRules, list_transforms, names_row_column, split_topic
from headrace.engine.read.topic_union import union_changes
from headrace.engine.read.transform_chain import ChainWatch, TransformChain
from headrace.engine.read.transform_counts import TransformCounter
from headrace.engine.read.type_compatibility import reject_incompatible
from headrace.errors import RetriableError
from headrace.sdk import events as E
from headrace.sdk.changes import (
    FILE,
    OFFSET,
    PLACE,
    POSITION,
    RECORD_TYPE,
    Changes,
)
from headrace.sdk.events import Events
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.positions import is_tombstone
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.sink import Table
from headrace.sdk.source import RangedSource, SourceContext
from headrace.upsert.table_sources import SOURCE
from headrace.upsert.unavailable import fail_on_unavailable, mark_unavailable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField


class ChangeReader:
    """Reader of events and changes. It plans frames from schemas; their rows are read later."""

    def __init__(
        self,
        plan: Plan,
        tables: SourceTables | None = None,
        inferred_columns: SchemaLog | None = None,
        lineage: LineageLog | None = None,
    ) -> None:
        """``tables``: source tables of the topics, to reject changes of other tables; ``inferred_columns``: types from values.

        ``lineage`` notes from which columns those of the tables are made.
        """
        self._plan, self._tables, self._lineage = plan, tables, lineage
        self._chain = TransformChain(plan, inferred_columns)

    def read_events(self, context: SourceContext, frame: DataFrame, *, waiting: Collection[str] = ()) -> list[Events]:
        """Return a batch's events by topic. ``waiting``: topics that are not split, because earlier batches of them wait."""
        source = self._plan.source
        if not source.yields_records:
            return self.split(context, source.events(context, frame), waiting)
        return self.decode(context, source.records(context, frame), waiting, apart=True)

    def read_replay(self, context: SourceContext) -> list[Events]:
        """Return the events of the ranges in ``context.replay``, by topic."""
        source, ranges = self._plan.source, context.replay or {}
        frame = context.spark.range(0).drop("id")
        if isinstance(source, RangedSource):
            spans = {json.dumps(span): span for topic_ranges in ranges.values() for span in topic_ranges}.values()
            frame = reduce(lambda a, b: a.unionByName(b), [source.read(context.spark, *span) for span in spans])
        return [events for events in self.read_events(context, frame) if events.topic in ranges]

    def decode(
        self,
        context: SourceContext,
        topics: Mapping[str, Records],
        waiting: Collection[str] = (),
        *,
        apart: bool = False,
    ) -> list[Events]:
        """Return decoded events by topic; ``topics`` has the reader of each topic's records.

        ``apart``: a topic that cannot be read does not affect the others.
        """
        plan = self._plan
        assert plan.value_format is not None, "a source of records has a value format; built so"
        decoder = RecordDecoder(plan.value_format, plan.key_format, plan.metadata_topic, plan.routes.key_columns)
        return self.split(context, decoder.decode(context, topics, apart=apart), waiting)

    def split(
        self, context: SourceContext, batch_events: Sequence[Events], waiting: Collection[str] = ()
    ) -> list[Events]:
        """Split the topics that a rule routes by a field. A topic that cannot be split, or waits, gets an error."""
        found: list[Events] = []
        for events in (order_by_offset(context, events) for events in batch_events):
            route = self._plan.routes.of(events.topic)
            if (
                route is None
                or route.error
                or not route.by
                or events.error
                or self._plan.metadata_topic(events.topic, events.schema)
            ):
                found.append(events)
                continue
            if events.topic in waiting:
                found.append(Events.of_failure(events.topic, RetriableError("earlier batches of the topic wait")))
                continue
            in_files = not self._plan.source.yields_records
            try:
                rules = SplitRules.of_topic(self._plan, events, route.by)
                found += split_topic(context.spark, context.schemas, events, rules, in_files=in_files)
            except Exception as raised:
                error = translate(raised, self._plan)
                if isinstance(error, UnknownSchemaError):
                    raise error from raised
                found.append(Events.of_failure(events.topic, error))
        return found

    def read_changes(
        self,
        session: SparkSession,
        events: Events,
        route: Route,
        *,
        seen: SeenColumns | None = None,
        every_field: bool = False,
        has_unavailable: bool = False,
        tombstones: bool = True,
        balance: TransformCounter | None = None,
    ) -> Changes:
        """Return a topic's events as transformed changes.

        ``seen`` notes the input of each transform; ``every_field`` reads every field, not only those that tables need;
        ``has_unavailable``: some events leave values out, otherwise a task that meets one fails; ``tombstones``: include tombstones
        whose delete may be missing; ``balance`` counts the changes that transforms leave out.
        """
        dialect = self._plan.dialect_of(events)
        _reject_names(events, session)
        key = route.key if events.schema.fields else ()
        is_numbered = every_field and self._numbers_records()
        frame = self._load(session, events, route, key, every_field=every_field, is_numbered=is_numbered)
        position_parts = dialect.position_parts(events)
        if not tombstones and position_parts is not None:
            # Events have the columns that identify tombstones. Changes have only their positions, which a table may not need.
            frame, position_parts = E.drop_tombstones(frame), None
        order = self._find_order(session, events, route)
        if order and position_parts is None:
            frame = reject_tombstones(frame)
        # A transform that is limited to some tables also applies to records whose table is unknown.
        table = None if route.by and events.part is None else route.table
        changes = replace(dialect.changes(events, frame, key), table=table, position_parts=position_parts)
        changes = order_changes(changes, order) if order else changes
        changes = _with_source(changes, events, dialect.source_path(events.schema))
        changes = match_key_spelling(self._reject_other_tables(changes, events, route))
        changes, transforms = reject_without_columns(changes, list_transforms(self._plan, events, route))
        may_change = bool(key) and self._may_change_key(changes, events, route.table)
        tests = dialect.unavailable_tests(events.schema)
        changes = split_key_updates(changes, events.topic, tests) if may_change else changes
        changes = (mark_unavailable if has_unavailable else fail_on_unavailable)(changes, tests)
        is_split = every_field and not (route.by or route.is_logical_table)
        own = self._find_own_table(events, route)
        watch = ChainWatch(seen, balance, None if every_field else self._lineage)
        transform = partial(self._chain.apply, transforms=transforms, topic=events.topic, own=own, watch=watch)
        changes, key_columns = transform_parts(self._plan, changes, transform, has_others=is_split)
        changes = drop_decoded_headers(changes) if every_field and self._plan.hides_values else changes
        changes = reject_refused_fields(changes, events, route.table, self._plan.sinks, keeps_values=every_field)
        kept = keep_numbers(changes.frame, OFFSET, FILE, PLACE) if is_numbered else changes.frame
        return reject_missing_keys(replace(changes, frame=kept), key_columns)

    def _find_own_table(self, events: Events, route: Route) -> str | None:
        """Return the table of a split topic's events that name no table; None if they become dead letters."""
        return route.table if route.by and not names_row_column(self._plan, events, route.by) else None

    def _find_order(self, session: SparkSession, events: Events, route: Route) -> Sequence[StructField]:
        """Return the columns that order the changes of a topic; none if positions or offsets order them."""
        if not route.order_by or not events.schema.fields:
            return ()
        return find_order_fields(self._plan, session, events, route.order_by)

    def _load(
        self,
        session: SparkSession,
        events: Events,
        route: Route,
        key: Sequence[str],
        *,
        every_field: bool,
        is_numbered: bool,
    ) -> DataFrame:
        """Load events. ``every_field``: for dead letters, with every field; ``is_numbered``: OFFSET is the number in the file."""
        read_schema = partial(self._plan.dialect_of(events).read_schema, events.schema, key=key)
        schema = read_schema(with_row_before=needs_row_before(self._plan, events, route))
        if not every_field:
            return events.load(session, schema).drop(E.DETAIL)
        hides_values = self._plan.hides_values
        # Other dead letters have the bytes of their records.
        has_fields = hides_values or not self._plan.source.yields_records
        whole = read_schema(with_row_before=True) if has_fields else schema
        frame = load_for_dead_letters(session, events, schema, whole)
        if hides_values:
            frame = drop_decoded_bytes(frame)
        if not is_numbered:
            return frame
        return E.drop_tombstones(frame).withColumn(E.OFFSET, number_in_file(E.OFFSET, E.FILE, E.PLACE))

    def _may_change_key(self, changes: Changes, events: Events, table: str) -> bool:
        """Return whether an update may change the key: envelopes become rows, and their connector does not know the key."""
        has_own_key = bool(getattr(events.key_schema, "names", ()))
        return changes.envelope and not has_own_key and any(t.flattens for t in self._plan.transforms_of(table))

    def _numbers_records(self) -> bool:
        """Return whether records are numbered before the transforms.

        A dead letter names its record by the number in the file, which includes the records of which no change is left.
        """
        return not self._plan.source.yields_records and any(t.filters or t.multiplies for t in self._plan.transforms)

    def read_target(
        self,
        session: SparkSession,
        target: Target,
        *,
        has_unavailable: bool,
        every_field: bool = False,
        tombstones: bool = True,
        balance: TransformCounter | None = None,
        incompatible: dict[str, str] | None = None,
    ) -> Changes:
        """Return the changes of all topics of a table.

        If the file has a policy for it, changes that do not fit the table are rejected. ``incompatible`` notes column → type of such
        values.
        """
        parts = [
            self.read_changes(
                session,
                events,
                route,
                every_field=every_field,
                has_unavailable=has_unavailable,
                tombstones=tombstones,
                balance=balance,
            )
            for events, route in target.sources
        ]
        rejects_conflicts = RejectReason.SCHEMA_INCOMPATIBLE in self._plan.settings.dead_letters
        changes = union_changes(parts, target.name, rejects_conflicts=rejects_conflicts, found=incompatible)
        if not rejects_conflicts:
            return changes
        stored = [read_stored(sink, Table(target.name), session) for sink in self._plan.sinks]
        schemas = [table.schema for table in stored if table is not None]
        return reduce(partial(reject_incompatible, keeps_values=every_field, found=incompatible), schemas, changes)

    def count_records(self, session: SparkSession, batch_events: Sequence[Events]) -> dict[str, int]:
        """Return topic → number of records; empty if they cannot be read, which is not an error."""
        from pyspark.sql import functions as F

        if not batch_events:
            return {}
        with suppress(Exception):
            frames = [e.load(session, e.schema).select(F.lit(e.topic).alias("topic")) for e in batch_events]
            return dict(map(tuple, reduce(lambda a, b: a.unionAll(b), frames).groupBy("topic").count().collect()))
        return {}

    def _reject_other_tables(self, changes: Changes, events: Events, route: Route) -> Changes:
        """Reject changes of a source table other than the table of the topic's first record, unless a rule accepts them."""
        from pyspark.sql import functions as F

        name = self._plan.dialect_of(events).source_table(events.schema, changes.key_columns)
        if name is None and events.types:  # Records of other types may follow in later batches.
            name = F.col(RECORD_TYPE) if RECORD_TYPE in changes.frame.columns else F.lit(events.types[0])
        if self._tables is None or name is None or route.by or route.is_logical_table:
            return changes
        is_ruled = RejectReason.OTHER_TABLE in self._plan.settings.dead_letters
        return reject_other_tables(changes, events.topic, name, self._tables, is_ruled=is_ruled)

    def only_source(self, target: Target) -> str | None:
        """Return the source of all changes of a table; None if only the records name it."""
        topics = {events.topic for events, _ in target.sources}
        paths = [self._plan.dialect_of(events).source_path(events.schema) for events, _ in target.sources]
        return topics.pop() if len(topics) == 1 and all(path is None for path in paths) else None

    def may_leave_out(self, target: Target) -> bool:
        """Return whether events of a table's topics can have unavailable values."""
        return any(self._plan.dialect_of(events).unavailable_tests(events.schema) for events, _ in target.sources)


def order_by_offset(context: SourceContext, events: Events) -> Events:
    """Return the events, with ``by_offset`` from the first batch on that has a record without a position in the topic."""
    schemas, subject = context.schemas, Subject(events.topic, "position")
    with schemas.hold(events.topic):
        if context.batch is not None and schemas.take_unknown(subject) is not None:
            schemas.add_writer(subject, str(context.batch), "")
    batches = [int(batch) for batch in schemas.writers(subject)]
    return replace(events, by_offset=any(batch <= (context.batch or 0) for batch in batches))


def _reject_names(events: Events, session: SparkSession) -> None:
    """Raise DataError for fields of events with names of headrace's own columns, and for names that look equal."""
    reject_own_names(events.schema.names, events.topic, envelope=False)
    reject_lookalikes(events.schema, events.topic, session)


def _with_source(changes: Changes, events: Events, path: Column | None) -> Changes:
    """Add PART, and SOURCE before the transforms, which remove the columns that ``path`` reads."""
    from pyspark.sql import functions as F

    source = F.lit(events.topic) if path is None else F.concat(F.lit(f"{events.topic}/"), path)
    part = F.lit(events.part).cast("string")
    return replace(changes, frame=changes.frame.withColumns({SOURCE: source, PART: part}))


def needs_row_before(plan: Plan, events: Events, route: Route) -> bool:
    """Return whether the whole row before a change must be read, not only its key.

    Envelopes that stay envelopes are kept whole. Without a key, the row before identifies the deleted row.
    """
    transforms = plan.transforms_of(route.table)
    becomes_rows = any(transform.flattens for transform in transforms)
    has_key = bool(route.key or events.key_schema)
    return not becomes_rows or not has_key or any(transform.reads_before for transform in transforms)


def drop_tombstones(changes: Changes) -> Changes:
    """Drop tombstones from changes."""
    if changes.position_parts is None:
        return changes
    return replace(changes, frame=drop_tombstone_rows(changes.frame), position_parts=None)


def drop_tombstone_rows(rows: DataFrame) -> DataFrame:
    """Drop tombstones from rows with positions."""
    from pyspark.sql import functions as F

    return rows.where(~is_tombstone(F.col(POSITION)))
