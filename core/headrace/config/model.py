"""The pipeline file: its keys, and how their plugins are found."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from string import Formatter
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, field_validator, model_validator

from headrace.config.settings import Settings
from headrace.config.table_names import check_table_name
from headrace.sdk.config import Config
from headrace.sdk.plugin_block import parse_plugin_block


def _block(item: Any) -> Any:
    if not isinstance(item, str | dict):
        return item
    try:
        return dict([parse_plugin_block(item, "plugin")])
    except ValueError as error:
        raise ValueError(f"{error}: indent a plugin's options below its name, and give every plugin a '-'") from None


#: One plugin with its block: ``{files: {path: bronze/}}``; a bare name means an empty block.
Block = Annotated[dict[str, Any], BeforeValidator(_block)]

#: What stands for the format of keys that are not read.
NO_FORMAT: Final = "none"

_NAME = re.compile(r"[\w][\w.-]*")


class TableRule(Config):
    """Which topics become which table."""

    source: str
    """A topic, a glob (``moma.public.*``) or a ``/regular expression/``."""

    target: str | None = None
    """The table; may use {topic}, {prefix}, {db}, {schema}, {table}. Default: the topic's own name."""

    key: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    """Key columns, named as in the event. Only where the event carries no key, or one that cannot be read. With
    `route.by.field` also a mapping: the value of the field, or a glob (``*``) → the key columns of its table.
    """

    columns: dict[str, str] = Field(default_factory=dict)
    """Column → its type, where the records bring none (JSON without schemas): one of Spark's, one of the converters', or the
    name that the connector has for what the value means.
    """

    route_by_field: tuple[str, ...] = Field((), alias="route.by.field")
    """The field, or the fields, whose values say which table a record of the topic is of: ``source.table``. The values,
    joined with dots, then stand for the topic's name in ``target``. As the connectors' option of this name has it.
    """

    logical_table: bool = Field(default=False, alias="logical.table")
    """Whether a topic has the changes of several tables of one shape, which are one table here, as a
    ByLogicalTableRouter makes it. Their key has to tell the rows of the one from those of the other.
    """

    @field_validator("key", "route_by_field", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cls._one_or_many(columns) for name, columns in value.items()}
        return (value,) if isinstance(value, str) else value

    @field_validator("source")
    @classmethod
    def _regular_expression(cls, value: str) -> str:
        if is_regex(value):
            try:
                re.compile(value[1:-1])
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("target")
    @classmethod
    def _fields(cls, value: str | None) -> str | None:
        if value is not None:
            if not _only_fields(value):
                fields = ", ".join("{" + f + "}" for f in TARGET_FIELDS)
                raise ValueError(f"{value!r} uses a field that does not exist; there are {fields}")
            check_table_name(value.format(**dict.fromkeys(TARGET_FIELDS, "x")))
        return value

    @model_validator(mode="after")
    def _one_table_or_several(self) -> TableRule:
        if self.route_by_field and self.logical_table:
            raise ValueError(
                "`route.by.field` makes several tables of the topic, and `logical.table` one: write either"
            )
        if isinstance(self.key, dict) and not self.route_by_field:
            raise ValueError("`key` names tables, and no `route.by.field` says which table a record is of")
        return self

    def key_of(self, part: str | None) -> tuple[str, ...]:
        """Return the key columns of a topic, or of one part of it."""
        if not isinstance(self.key, dict):
            return self.key
        return next((columns for name, columns in self.key.items() if part and fnmatchcase(part, name)), ())

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key columns of all parts of a topic."""
        keys = self.key.values() if isinstance(self.key, dict) else [self.key]
        return tuple(name for columns in keys for name in columns)


TARGET_FIELDS = ("topic", "prefix", "db", "schema", "table")


class PipelineConfig(Settings):
    """A pipeline file."""

    name: str
    """Names the pipeline in tables, logs and the checkpoint."""

    source: dict[str, Any]
    """One source by its name; beside it ``value:`` and ``key:`` name the formats of sources that give bytes. ``key: none``
    does not read keys.
    """

    tables: tuple[TableRule, ...] = ()
    """Which topics become which tables. Default: every topic becomes a table of its own name."""

    transforms: tuple[Block, ...] = ()
    """In this order."""

    dialects: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of dialects, which know shapes of events, by their names. The events say which dialect reads them; one of another
    distribution is asked when it stands here.
    """

    sink: Block | None = None
    """One sink."""

    sinks: tuple[Block, ...] = ()
    """Several sinks, fed from one read."""

    checkpoint: str = Field(min_length=1)
    """Folder for what has been read, progress and dead letters."""

    spark: dict[str, Any] = Field(default_factory=dict)
    """Settings of Spark (``spark.…``), under their own names."""

    FORMAT_KEYS: ClassVar[tuple[str, ...]] = ("value", "key")

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
                raise ValueError(f"{key!r} is not a setting of Spark: they start with 'spark.'")
        return value

    @model_validator(mode="after")
    def _one_or_several_sinks(self) -> PipelineConfig:
        if bool(self.sink) == bool(self.sinks):
            raise ValueError(
                "write either `sink:` or `sinks:` with a list" + ("" if self.sink else "; there is neither")
            )
        return self

    @property
    def settings(self) -> Settings:
        """The options beside the plugins; no plugin's block is in them."""
        return Settings(**{name: getattr(self, name) for name in Settings.model_fields})

    @property
    def all_sinks(self) -> tuple[Block, ...]:
        return (self.sink,) if self.sink else self.sinks


def is_regex(pattern: str) -> bool:
    """Whether a source is a ``/regular expression/``; else it is a name or a glob."""
    return len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/")


def _only_fields(target: str) -> bool:
    try:
        parts = list(Formatter().parse(target))
    except ValueError:
        return False
    return all(name is None or (name in TARGET_FIELDS and not spec and not how) for _, name, spec, how in parts)
