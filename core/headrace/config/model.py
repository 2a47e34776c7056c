"""Model of the pipeline file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from string import Formatter
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from headrace.config.column_lists import check_distinct_columns, read_one_or_many
from headrace.config.dead_letter_options import Policy
from headrace.config.maintenance_options import Maintenance
from headrace.config.observer_blocks import list_plugin_keys
from headrace.config.settings import Settings
from headrace.config.table_names import check_table_name
from headrace.config.view_rule import ViewRule
from headrace.schema.name_patterns import check_column_globs
from headrace.sdk.config import Config
from headrace.sdk.interval import Interval
from headrace.sdk.plugin_block import parse_plugin_block
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.transform import Strings


def _block(item: Any) -> Any:
    if not isinstance(item, str | dict):
        return item
    try:
        return dict([parse_plugin_block(item, "plugin")])
    except ValueError as error:
        raise ValueError(f"{error}: indent a plugin's options below its name, and give every plugin a '-'") from None


#: One plugin with its options: ``{files: {path: bronze/}}``; a bare name means no options.
Block = Annotated[dict[str, Any], BeforeValidator(_block)]

#: Tag → columns and fields: names or globs, with or without a table.
Tags = dict[str, Annotated[Strings, AfterValidator(check_column_globs)]]

#: Format of keys that are not read.
NO_FORMAT: Final = "none"

_NAME = re.compile(r"[\w][\w.-]*")


class TableRule(Config):
    """Mapping of topics to a table, and options of the table.

    The first rule that matches a topic decides its table, with the options from ``target`` to ``logical.table``. Each of the other
    options comes from the first matching rule that has it, and without one from the sink and the pipeline.
    """

    source: str
    """A topic, a glob (``moma.public.*``) or a ``/regular expression/``."""

    target: str | None = None
    """The table; may use {topic}, {prefix}, {db}, {schema}, {table}, and the groups of a regular expression in ``source``: {1},
    {2} … Default: the topic's own name.
    """

    key: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    """Key columns, named as in the event. Only for events without a readable key. With
    `route.by.field` also a mapping: the value of the field, or a glob (``*``) → the key columns of its table.
    """

    columns: dict[str, str] = Field(default_factory=dict)
    """Column → its type, for records without types, such as JSON without schemas: a Spark type, a converter's type, or the connector's semantic
    type name.
    """

    order_by: tuple[str, ...] = Field((), alias="order.by")
    """Columns of flat rows by which the changes of a key are ordered, named as in the event: the row with the highest values wins. Null sorts
    first. Only for rows without a position of the database.
    """

    route_by_field: tuple[str, ...] = Field((), alias="route.by.field")
    """Field or fields whose values name the table of a record: ``source.table``, or ``record.name`` for the name of its schema. The values, joined with dots, replace the topic's name in
    ``target``. The connectors have an option of this name.
    """

    logical_table: bool = Field(default=False, alias="logical.table")
    """Whether a topic has the changes of several tables with the same columns, which become one table, as with a
    ByLogicalTableRouter. The key must distinguish their rows.
    """

    sinks: tuple[str, ...] | None = None
    """Names of the sinks that receive the table. Default: all sinks of the pipeline."""

    sink: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of sinks for the table, by the sink's name: ``{NAME: {mode: append}}``. Each option replaces the sink's own.
    Options of the whole sink, such as its folder or its catalog, cannot be set for one table.
    """

    maintenance: Maintenance | None = None
    """Maintenance of the table. Each option replaces the pipeline's own."""

    dead_letters: dict[RejectReason, Policy] = Field(default_factory=dict, alias="dead.letters")
    """Policies for records of the table that cannot become a row, by reason. Each replaces the pipeline's own."""

    delete_retention: Interval | None = Field(default=None, alias="delete.retention")
    """How long keys of deleted rows are kept, instead of the pipeline's own value."""

    @field_validator("key", "order_by", "route_by_field", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cls._one_or_many(columns) for name, columns in value.items()}
        return read_one_or_many(value)

    @field_validator("key", "order_by")
    @classmethod
    def _distinct_columns(cls, value: Any) -> Any:
        for columns in value.values() if isinstance(value, dict) else [value]:
            check_distinct_columns(columns)
        return value

    @field_validator("sinks")
    @classmethod
    def _some_sinks(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise ValueError("names no sink; to leave a topic out, give it no rule")
        return value

    @field_validator("source")
    @classmethod
    def _regular_expression(cls, value: str) -> str:
        if value.startswith("/") and not is_regex(value):
            raise ValueError("a regular expression also ends with '/'; the name of a topic does not start with it")
        if is_regex(value):
            try:
                re.compile(value[1:-1])
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("target")
    @classmethod
    def _fields(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            groups = list_groups(info.data.get("source", ""))
            if not _only_fields(value, groups):
                fields = ", ".join("{" + f + "}" for f in (*TARGET_FIELDS, *groups))
                raise ValueError(f"{value!r} uses an unknown field; known fields: {fields}")
            check_table_name(value.format("x", *("x" for _ in groups), **dict.fromkeys(TARGET_FIELDS, "x")))
        return value

    @model_validator(mode="after")
    def _one_table_or_several(self) -> TableRule:
        if self.route_by_field and self.logical_table:
            raise ValueError("`route.by.field` and `logical.table` exclude each other: write one of them")
        if isinstance(self.key, dict) and not self.route_by_field:
            raise ValueError("`key` is a mapping of tables, which needs `route.by.field`")
        return self

    def key_of(self, part: str | None) -> tuple[str, ...]:
        """Return the key columns of a topic, or of one part of it."""
        if not isinstance(self.key, dict):
            return self.key
        return next((columns for name, columns in self.key.items() if part and fnmatchcase(part, name)), ())

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Key columns of all parts of a topic."""
        keys = self.key.values() if isinstance(self.key, dict) else [self.key]
        return tuple(name for columns in keys for name in columns)


TARGET_FIELDS = ("topic", "prefix", "db", "schema", "table")


class PipelineConfig(Settings):
    """A pipeline file."""

    name: str
    """Name of the pipeline in tables, logs and the checkpoint."""

    source: dict[str, Any]
    """One source by its name; ``value:`` and ``key:`` name the formats of sources that yield bytes. With ``key: none`` keys are
    not read.
    """

    tables: tuple[TableRule, ...] = ()
    """Mapping of topics to tables. Default: each topic becomes a table of its name."""

    views: tuple[ViewRule, ...] = ()
    """Views: tables that SQL computes from tables of the pipeline. Each batch keeps them equal to these tables."""

    transforms: tuple[Block, ...] = ()
    """Transforms, in the order of their application."""

    tags: Tags = Field(default_factory=dict)
    """Tag → columns: names or globs (``email``), in some tables if a table precedes them (``shop.people.name``, ``*.phone``). ``mask`` can
    select columns by tag. A tagged column that no transform masks is an error.
    """

    dialects: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of dialects, by their names. The dialect of a topic is chosen by its events; a dialect of another distribution is active
    only when it is listed here.
    """

    sink: Block | None = None
    """One sink."""

    sinks: tuple[Block, ...] = ()
    """Several sinks; the source is read once."""

    checkpoint: str = Field(min_length=1)
    """Folder for offsets, progress and dead letters."""

    spark: dict[str, Any] = Field(default_factory=dict)
    """Spark settings (``spark.…``), under their own names."""

    FORMAT_KEYS: ClassVar[tuple[str, ...]] = ("value", "key")

    @classmethod
    def passthrough_patterns(cls, data: Mapping[str, Any]) -> Collection[str]:
        """Return the keys that plugins add: blocks of commands, and observers. They are looked up for a key that is no option."""
        return () if data.keys() <= set(cls.keys()) else list_plugin_keys()

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a name: letters, digits, '_', '-' and '.'")
        return value

    @field_validator("source", mode="before")
    @classmethod
    def _source(cls, value: Any) -> Any:
        if isinstance(value, dict):
            named = [key for key in value if key not in cls.FORMAT_KEYS]
            if len(named) != 1:
                raise ValueError(f"name exactly one source, not {', '.join(map(repr, named)) or 'none'}")
        return value

    @field_validator("spark")
    @classmethod
    def _spark(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            if not str(key).startswith("spark."):
                raise ValueError(f"{key!r} is not a Spark setting: its name must start with 'spark.'")
        return value

    @model_validator(mode="after")
    def _one_or_several_sinks(self) -> PipelineConfig:
        if bool(self.sink) == bool(self.sinks):
            raise ValueError(
                "write either `sink:` or `sinks:` with a list" + ("" if self.sink else "; both are missing")
            )
        return self

    @property
    def settings(self) -> Settings:
        """Options of the pipeline without those of its plugins."""
        return Settings(**{name: getattr(self, name) for name in Settings.model_fields})


def is_regex(pattern: str) -> bool:
    """Return whether a source is a ``/regular expression/``, not a name or a glob."""
    return len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/")


def list_groups(pattern: str) -> list[str]:
    """Return the numbers of the groups of a topic pattern; none if it is not a regular expression."""
    return [str(number + 1) for number in range(re.compile(pattern[1:-1]).groups)] if is_regex(pattern) else []


def _only_fields(target: str, groups: Collection[str]) -> bool:
    try:
        parts = list(Formatter().parse(target))
    except ValueError:
        return False
    known = {*TARGET_FIELDS, *groups}
    return all(name is None or (name in known and not spec and not how) for _, name, spec, how in parts)
