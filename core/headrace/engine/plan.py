"""A pipeline with its plugins built: what the engine runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING

from headrace.dead_letters.policy import Rules
from headrace.engine.decode import Records, decoded
from headrace.engine.routing import Route, Routes
from headrace.errors import ConfigError, DataError, HeadraceError
from headrace.sdk.changes import ERROR, KEY, Changes
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.format import Format
from headrace.sdk.plugin import Plugin
from headrace.sdk.reject_reason import UNREADABLE, RejectReason
from headrace.sdk.sink import Sink, Table, TableMode
from headrace.sdk.source import RangedSource, Source, SourceContext
from headrace.sdk.transform import Transform
from headrace.suggestions import did_you_mean
from headrace.upsert import unavailable as unchanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from headrace.dead_letters.table_store import LettersTable
    from headrace.sdk.schema_log import SchemaLog

#: Transform → the columns of all tables that it was given.
SeenColumns = dict[Transform, set[str]]


@dataclass(frozen=True)
class Plan:
    """Everything a run needs but a session."""

    name: str
    source: Source
    sinks: tuple[Sink, ...]
    checkpoint: str
    routes: Routes
    dialects: tuple[Dialect, ...]
    transforms: tuple[Transform, ...] = ()
    value_format: Format | None = None
    key_format: Format | None = None
    spark_conf: dict[str, str] = field(default_factory=dict)
    trigger: str | None = None
    min_sync_interval: str | None = None
    #: Seconds for which keys of removed rows are remembered; 0: not at all.
    delete_retention: float = 0
    #: Seconds that a table may take in a batch.
    table_timeout: float = 1800
    #: What becomes of dead letters.
    rules: Rules = field(default_factory=Rules)
    #: The table that keeps them; None: files in the checkpoint.
    letters: LettersTable | None = None
    redact: Callable[[str], str] = str

    @property
    def plugins(self) -> list[Plugin]:
        formats = [f for f in (self.value_format, self.key_format) if f]
        return [self.source, *formats, *self.dialects, *self.transforms, *self.sinks]

    @property
    def sql_conf(self) -> dict[str, str]:
        """Settings of headrace's own sessions: the plugins', and over them the pipeline's."""
        merged: dict[str, str] = {}
        for plugin in self.plugins:
            merged.update(plugin.sql_conf)
        return {**merged, **self.spark_conf}

    @property
    def removes_rows(self) -> bool:
        """Whether what the database removes is to be removed, and not kept or left out."""
        return all(transform.deletes_rows for transform in self.transforms if transform.flattens)

    @property
    def hides_values(self) -> bool:
        return any(transform.hides_values for transform in self.transforms)

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        """A batch's frame as events by topic."""
        if not self.source.yields_records:
            return self.source.events(context, frame)
        return self.decoded(context, self.source.records(context, frame), apart=True)

    def events_of_replay(self, context: SourceContext) -> list[Events]:
        """What ``context.replay`` says, as events by topic."""
        again = context.replay or {}
        frame = context.spark.range(0).drop("id")
        if isinstance(self.source, RangedSource):
            spans = {json.dumps(span): span for spans in again.values() for span in spans}.values()
            frame = reduce(lambda a, b: a.unionByName(b), [self.source.read(context.spark, *span) for span in spans])
        return [events for events in self.events(context, frame) if events.topic in again]

    def decoded(self, context: SourceContext, topics: Mapping[str, Records], *, apart: bool = False) -> list[Events]:
        """Records as events by topic; ``topics`` has what reads each one's. ``apart``: one that fails leaves the others."""
        assert self.value_format is not None, "a source of records has a value format; built so"
        return decoded(context, topics, self.value_format, self.key_format, apart=apart)

    def tell(self, schemas: SchemaLog, session: SparkSession) -> None:
        """What file and tables say of the types of columns, and the file of records without any."""
        schemas.ruled = self.rules.policies
        schemas.columns, schemas.tables = self.routes.columns, partial(self._stored, session)

    def _stored(self, session: SparkSession, topic: str) -> dict[str, DataType]:
        route = self.routes.of(topic)
        if route is None:
            return {}
        named = {name for transform in self.transforms for name in transform.reads()}
        for sink in self.sinks:
            with suppress(Exception):  # there is none yet, or the sink shows none
                schema = sink.read_back(session, Table(route.table)).schema
                return {field.name: field.dataType for field in schema if field.name not in named}
        return {}

    def metadata_topic(self, events: Events) -> str | None:
        """What a topic tells of the stream itself, when it holds no rows."""
        return next((found for d in self.dialects if (found := d.metadata_topic(events.topic, events.schema))), None)

    def dialect(self, events: Events) -> Dialect:
        if events.error is not None:
            raise events.error
        for dialect in self.dialects:
            if dialect.matches(events.schema):
                return dialect
        raise DataError(
            f"no dialect recognises its events: {', '.join(events.schema.names)}",
            where=f"topic {events.topic}",
            fix="install a plugin that knows this shape, or leave the topic out of `tables:`",
        )

    def changes(
        self,
        session: SparkSession,
        events: Events,
        route: Route,
        *,
        seen: SeenColumns | None = None,
        whole: bool = False,
        partial: bool = False,
    ) -> Changes:
        """A topic's events as transformed changes; not yet read.

        ``seen`` notes what each transform was given; ``whole`` reads every field, not only those that tables need;
        ``partial``: some events leave values out, else a task that meets one fails.
        """
        dialect = self.dialect(events)
        # Envelopes that stay envelopes are kept whole.
        rows = any(transform.flattens for transform in self.transforms)
        keyless = not (route.key or events.key_schema)
        before = whole or not rows or keyless or any(transform.reads_before for transform in self.transforms)
        schema = dialect.read_schema(events.schema, key=route.key, whole_before=before)
        changes = dialect.changes(events, events.load(session, schema), route.key)
        left_out = dialect.unavailable_tests(events.schema)
        changes = (unchanged.marked if partial else unchanged.refused)(changes, left_out)
        for transform in self.transforms:
            if seen is not None:
                seen.setdefault(transform, set()).update(changes.row_columns)
            try:
                changes = transform.apply(changes)
            except HeadraceError as error:
                error.where = error.where or f"transform {transform.name}, topic {events.topic}"
                raise
        return self._keys_checked(changes)

    def finders(self, events: Events) -> dict[str, str]:
        """Reason → the plugin that finds a record wrong for it; under an empty text, for all others."""
        reader = self.value_format or self.source
        return {
            "": self.dialect(events).name,
            **dict.fromkeys(UNREADABLE, reader.name),
            RejectReason.KEY_MISSING: "headrace",
        }

    def mode(self, sink: Sink, changes: Changes) -> TableMode:
        """What a sink is asked to do with these changes."""
        wanted: TableMode | None = sink.config.mode
        if wanted in ("upsert", "changelog") and changes.envelope:
            raise DataError(
                f"mode {wanted} needs rows, and these are envelopes",
                where=f"sink {sink.name}",
                fix="add `- unwrap: {}` to `transforms:`",
            )
        if wanted:
            return wanted
        if changes.envelope or not sink.capabilities.upsert:
            return "append"
        return "upsert" if changes.key_columns else "changelog"

    def check_names(self, seen: SeenColumns) -> None:
        """Every column that a transform names must have been in at least one table that it was given."""
        for transform, columns in seen.items():
            for name in transform.reads():
                if name not in columns:
                    raise ConfigError(
                        f"there is no column {name!r} in any table",
                        where=f"transform {transform.name}",
                        fix=did_you_mean(name, columns),
                    )

    def check_static(self) -> None:
        """What can be known without Spark: whether sinks can keep what the transforms ask of them."""
        for sink in self.sinks:
            mode = sink.config.mode
            if mode == "upsert" and not sink.capabilities.upsert:
                raise ConfigError(
                    "cannot keep one row per key",
                    where=f"sink {sink.name}",
                    fix="write `mode: append`, or use another sink",
                )
            appends = mode == "append" or (mode is None and not sink.capabilities.upsert)
            if mode == "changelog":  # what is removed is a row of it
                continue
            if any(t.deletes_rows for t in self.transforms) and (appends or not sink.capabilities.delete):
                raise ConfigError(
                    "it appends, and cannot remove the rows that the database deletes",
                    where=f"sink {sink.name}",
                    fix="set `delete.tombstone.handling.mode: rewrite` in `unwrap` to keep a delete as a row, or `drop` to leave it out",
                )

    def _keys_checked(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        if not changes.key_columns:
            return changes
        whole = F.col(KEY)
        missing = reduce(lambda a, b: a | b, [whole.getField(k).isNull() for k in changes.key_columns], whole.isNull())
        wrong = F.coalesce(F.col(ERROR), F.when(missing, F.lit(RejectReason.KEY_MISSING)))
        return Changes(changes.frame.withColumn(ERROR, wrong), changes.envelope)
