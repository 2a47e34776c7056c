"""Plan of a pipeline: its plugins, built, and everything else that the engine needs to run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.orders import read_ordered_topics
from headrace.config.settings import Settings
from headrace.config.sink_names import name_sinks
from headrace.dead_letters.policy import DeadLetterPolicy
from headrace.engine.plan.column_tags import ColumnTags
from headrace.engine.plan.dialect_choice import FallbackDialects, find_fallback_dialects, matches_schema
from headrace.engine.plan.routing import Routes
from headrace.engine.plan.stored_table import read_stored
from headrace.engine.plan.table_options import IncompleteOptionsError, TableOptions
from headrace.errors import DataError, HeadraceError
from headrace.runtime.session.session_builder import with_parts
from headrace.schema.field_paths import list_field_paths
from headrace.sdk.changes import TOMBSTONE
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.file_system import FileSystem, TextFolder
from headrace.sdk.format import Format
from headrace.sdk.observer import Observer
from headrace.sdk.plugin import Plugin
from headrace.sdk.reject_reason import UNREADABLE, RejectReason
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.sink import Sink, Table
from headrace.sdk.source import Source
from headrace.sdk.transform import Transform
from headrace.spark.columns import name_fold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from headrace.config.renewal import Renewal
    from headrace.dead_letters.table_store import DeadLetterTable
    from headrace.engine.plan.view_plan import View
    from headrace.spark.storage import Folder

    #: Topic → column types of its table.
    TableTypes = Callable[[str], Mapping[str, DataType]]


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs, except a session. Immutable: rotated credentials make another plan."""

    name: str
    source: Source
    sinks: tuple[Sink, ...]
    checkpoint: str
    routes: Routes
    dialects: tuple[Dialect, ...]
    transforms: tuple[Transform, ...] = ()
    tags: ColumnTags = field(default_factory=ColumnTags)
    value_format: Format | None = None
    key_format: Format | None = None
    #: File systems of the pipeline's addresses.
    file_systems: tuple[FileSystem, ...] = ()
    spark_conf: dict[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    #: The table that keeps dead letters; None: files in the checkpoint.
    dead_letter_table: DeadLetterTable | None = None
    redact: Callable[[str], str] = field(default=str, repr=False)
    #: Installed dialects of other distributions that the file does not name: used if no other dialect matches.
    fallback_dialects: FallbackDialects = field(default_factory=dict)
    #: How to build the pipeline again; None: its file has no references.
    renewal: Renewal | None = field(default=None, repr=False)
    #: Unique names of the sinks for users, in the order of the sinks; empty: those of the file.
    sink_names: Mapping[Sink, str] = field(default_factory=dict)
    #: Views, each after the views that it reads.
    views: tuple[View, ...] = ()
    observers: tuple[Observer, ...] = ()
    #: Options of tables → the plan with them: each sink with its options is built once.
    _table_plans: dict[TableOptions, Plan] = field(default_factory=dict, init=False, compare=False, repr=False)
    #: Number of tables whose options are known → ``variants``.
    _variants: dict[int, list[Plan]] = field(default_factory=dict, init=False, compare=False, repr=False)
    #: Whether it has the options of a table.
    _is_of_table: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sink_names", self.sink_names or name_sinks(self.sinks))

    def for_table(self, table: str) -> Plan:
        """Return the plan with the sinks and settings of a table."""
        if self._is_of_table:
            return self
        view = next((view for view in self.views if view.name == table), None)
        options = view.options if view else self.routes.options_of(table)
        return self if options is None else self._with_options(options, f"table {table}")

    def learn_tables(self, checkpoint: TextFolder) -> None:
        """Make the options of all tables known whose topics are in a checkpoint."""
        if self.routes.rule_options:
            self.routes.learn(read_ordered_topics(checkpoint))

    def delete_retention_of(self, table: str) -> float:
        """Return the seconds for which the keys of a table's deleted rows are kept."""
        return self.for_table(table).settings.delete_retention_seconds

    @property
    def variants(self) -> list[Plan]:
        """The plan, the plans with the options of each rule of ``tables:``, and those of known tables, each once."""
        count = len(self.routes.tables)
        if count not in self._variants:
            views = [] if self._is_of_table else [self.for_table(view.name) for view in self.views]
            found = [self, *self._list_table_plans(), *views]
            self._variants[count] = list({id(plan): plan for plan in found}.values())
        return self._variants[count]

    @property
    def table_variants(self) -> list[Plan]:
        """The variants that tables of the source use, without the variants of views."""
        is_used = self._is_of_table or self.routes.may_use_all_sinks
        return list({id(plan): plan for plan in [*([self] if is_used else []), *self._list_table_plans()]}.values())

    def _list_table_plans(self) -> list[Plan]:
        if self._is_of_table:
            return []
        found, rules = [], self.routes.rule_options
        for place, options in rules.items():
            try:
                found.append(self._with_options(options, place))
            except IncompleteOptionsError:  # They are checked with the options of the other rules.
                if len(rules) == 1:
                    raise
        return [*found, *map(self.for_table, self.routes.tables)]

    def _with_options(self, options: TableOptions, place: str) -> Plan:
        if options not in self._table_plans:
            sinks, settings = options.choose_sinks(self.sink_names, place), options.change_settings(self.settings)
            made = replace(self, sinks=tuple(sinks), sink_names=sinks, settings=settings, _is_of_table=True)
            self._table_plans.setdefault(options, made)
        return self._table_plans[options]

    def with_credentials_of(self, renewed: Plan) -> Plan:
        """Return the plan with the source, formats and sinks of ``renewed``.

        Transforms stay: a salt must not change in a run.
        """
        renewed.routes.learn(self.routes.subjects)
        return replace(
            self,
            source=renewed.source,
            value_format=renewed.value_format,
            key_format=renewed.key_format,
            sinks=renewed.sinks,
            routes=renewed.routes,
            sink_names=renewed.sink_names,
            dead_letter_table=replace(self.dead_letter_table, sink=renewed.dead_letter_table.sink)
            if self.dead_letter_table and renewed.dead_letter_table
            else None,
        )

    @property
    def plugins(self) -> list[Plugin]:
        formats = [f for f in (self.value_format, self.key_format) if f]
        writers = [*self.transforms, *self.sinks, *self.file_systems]
        return with_parts([self.source, *formats, *self.dialects, *writers, *self.observers])

    def name_of(self, sink: Sink) -> str:
        """Return the unique name of a sink of the pipeline."""
        if sink in self.sink_names:
            return self.sink_names[sink]
        found = (plan.sink_names[sink] for plan in self.variants if sink in plan.sink_names)
        return next(found, sink.name)

    @property
    def all_plugins(self) -> list[Plugin]:
        """The plugins of the pipeline, and the sinks with the options of single tables."""
        return list(dict.fromkeys([*self.plugins, *self.all_sinks]))

    @property
    def all_sinks(self) -> list[Sink]:
        """The sinks of the pipeline, and the sinks with the options of single tables."""
        return list(dict.fromkeys(sink for plan in self.variants for sink in plan.sinks))

    @property
    def sql_conf(self) -> dict[str, str]:
        """Settings of headrace's own sessions: the settings of the pipeline, overridden by the settings that its plugins need."""
        conf = dict(self.spark_conf)
        for plugin in self.plugins:
            conf.update(plugin.sql_conf)
        return conf

    def sink_of(self, table: str, name: str) -> Sink | None:
        """Return the sink of a name, with its options for a table; None if it does not receive the table."""
        return next((sink for sink, own in self.for_table(table).sink_names.items() if own == name), None)

    def sinks_of(self, table: str) -> Sequence[Sink]:
        """Return the sinks with a table: one sink for the table of dead letters, otherwise all sinks."""
        dead_letters = self.dead_letter_table
        return (dead_letters.sink,) if dead_letters and dead_letters.table_name == table else self.sinks

    def transforms_of(self, table: str) -> list[Transform]:
        """Return the transforms that apply to a table, and those that hide values, which also apply to records of unknown tables."""
        return [transform for transform in self.transforms if transform.hides_values or transform.applies_to(table)]

    def ignores_deletes(self, table: str | None) -> bool:
        """Return whether deletes are left out of a table, or of some table (None)."""
        return any(transform.ignores_deletes and transform.applies_to(table) for transform in self.transforms)

    @property
    def dead_letter_policy(self) -> DeadLetterPolicy:
        return DeadLetterPolicy(self.settings.dead_letters, self.settings.max_dead_letters)

    def removes_rows(self, table: str) -> bool:
        """Return whether rows of a table that the database deletes are removed, rather than kept or left out."""
        return all(transform.deletes_rows for transform in self.transforms_of(table) if transform.flattens)

    def applies_tombstones(self, table: str) -> bool:
        """Return whether a tombstone may remove a row of a table: some sink must keep one row per key."""
        modes = {sink.config.mode for sink in self.sinks if sink.capabilities.upsert}
        return self.removes_rows(table) and not modes.isdisjoint((None, "upsert", "history", "both"))

    @property
    def stores_tombstones(self) -> bool:
        """Whether a sink that appends takes tombstones."""
        return any(TOMBSTONE in sink.record_columns() for sink in self.sinks)

    @property
    def hides_values(self) -> bool:
        return any(transform.hides_values for transform in self.transforms)

    @property
    def mask_rules(self) -> dict[str, str]:
        """Column → its masking rules, without secrets."""
        rules: dict[str, str] = {}
        for transform in self.transforms:
            for column, rule in transform.rules().items():
                rules[column] = f"{rules[column]}, {rule}" if column in rules else rule
        if rules and self.tags:
            rules["a column of `tags:`"] = str(self.tags)
        return rules

    def open_schema_log(
        self, session: SparkSession, folder: Folder | None = None, *, table_types: TableTypes | None = None
    ) -> SchemaLog:
        """Open the schema log in ``folder``.

        Column types come from the file and from ``table_types``; None: the stored tables.
        """
        return SchemaLog(
            folder,
            file_types=self.routes.columns,
            table_types=table_types or partial(self.read_stored_types, session),
            row_fields=self.row_fields,
            ruled=self.list_ruled_reasons,
            splits=self.routes.splits,
        )

    def list_ruled_reasons(self, topic: str) -> Collection[str]:
        """Return the reject reasons for which the file has a policy, for the table of a topic."""
        route = self.routes.of_subject(topic)
        return (self.for_table(route.table) if route else self).settings.dead_letters

    def metadata_topic(self, topic: str, schema: StructType) -> str | None:
        """Return the description of a topic with stream metadata and no rows; None for other topics."""
        return next((text for d in self.dialects if (text := d.metadata_topic(topic, schema))), None)

    def find_metadata(self, batch_events: Iterable[Events]) -> dict[str, str]:
        """Return topic → its description, for the topics of a batch that have stream metadata and no rows."""
        # A part of a routed topic may have only metadata, whose records become dead letters.
        whole = (events for events in batch_events if events.part is None)
        return {e.topic: text for e in whole if (text := self.metadata_topic(e.topic, e.schema))}

    def row_fields(self, schema: StructType) -> Collection[str]:
        """Return the fields of events of this schema that are rows of their table."""
        dialect = self._find_dialect(schema)
        return [name for name in dialect.row_fields if name in schema.names] if dialect else []

    def dialect_of(self, events: Events) -> Dialect:
        """Return the first dialect that matches a topic's events.

        Raises the topic's read error; DataError without a dialect.
        """
        if events.error is not None:
            raise events.error
        try:
            dialect = self._find_dialect(events.schema)
        except HeadraceError as error:
            raise error.at(f"topic {events.topic}") from error.__cause__
        if dialect:
            return dialect
        raise DataError(
            f"no dialect matches its events: {', '.join(events.schema.names)}",
            where=f"topic {events.topic}",
            fix="install a plugin with a dialect for this schema and name it under `dialects:`, or leave the topic out of `tables:`",
        )

    def _find_dialect(self, schema: StructType) -> Dialect | None:
        if dialect := next((dialect for dialect in self.dialects if matches_schema(dialect, schema)), None):
            return dialect
        found = find_fallback_dialects(self.fallback_dialects, schema)
        if len(found) > 1:
            raise DataError(
                f"several dialects match its events: {', '.join(found)}", fix="name one of them under `dialects:`"
            )
        return next(iter(found.values()), None)

    def reason_owners(self, events: Events) -> dict[str, str]:
        """Return reason → the plugin that rejects records for it. An empty string stands for all other reasons."""
        reader = self.value_format or self.source
        owners: dict[str, str] = {"": self.dialect_of(events).name, **dict.fromkeys(UNREADABLE, reader.name)}
        own = [RejectReason.KEY_MISSING, RejectReason.TOO_LARGE, RejectReason.UNSUPPORTED_VALUE]
        own.append(RejectReason.UNTRANSFORMABLE)
        return owners | dict.fromkeys(own, "headrace")

    def read_stored_types(self, session: SparkSession, topic: str) -> Mapping[str, DataType]:
        """Return the column types of the stored table of a topic, without columns that a transform changes; empty without a table."""
        route = self.routes.of_subject(topic)
        if route is None or route.error:
            return {}
        fold = name_fold(session)
        for sink in self.for_table(route.table).sinks:
            stored = read_stored(sink, Table(route.table), session)
            if stored is not None:
                changed = {fold(name) for name in self.list_changed_columns(route.table, stored.schema)}
                return {field.name: field.dataType for field in stored.schema if fold(field.name) not in changed}
        return {}

    def list_changed_columns(self, table: str, schema: StructType) -> set[str]:
        """Return the columns of a table that transforms name, and those with a tag. ``schema``: the schema of the stored table."""
        transforms = [transform for transform in self.transforms if transform.applies_to(table)]
        names = [name for transform in transforms for name in transform.reads_in(table)]
        paths = {path: field.name for field in schema for path in list_field_paths(field.name, field.dataType)}
        # A name may be that of a field, such as `address.street`.
        named = {column for name in names for column in (name, name.partition(".")[0])}
        return named | {paths[path] for path in self.tags.list_columns(table, paths)}
