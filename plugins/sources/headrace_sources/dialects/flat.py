"""Flat rows, as ExtractNewRecordState leaves them: op, deletion and position in fields that start with ``__``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from headrace.sdk import Changes, DataError, Dialect, changes as C, did_you_mean, events as E
from headrace_sources.dialects.debezium import DebeziumConfig
from headrace_sources.dialects.positions import POSITION_FIELDS, source_position
from headrace_sources.dialects.record_columns import fill_key, key_change_columns, record_columns, record_key_names
from headrace_sources.dialects.unavailable import placeholder_tests

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.sdk import Events

_OP, _DELETED = "__op", "__deleted"


class FlatDialect(Dialect):
    """Any record is a row; ``__op``, ``__deleted``, ``__lsn`` and the like say more, with or without ``source_``.

    Rows without ``__deleted`` say by a tombstone that they are gone.
    """

    name = "flat"
    api_version = 1
    priority = 100
    Config = DebeziumConfig
    config: DebeziumConfig

    @classmethod
    def matches(cls, schema: StructType) -> bool:  # noqa: ARG003 - whatever no other dialect knows
        return True

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        if {"file", "pos"} <= _position_fields(schema.names).keys():  # MySQL's log has whole rows
            return {}
        fields = {field.name: field.dataType for field in schema}
        return placeholder_tests(fields, self.config.unavailable_value_placeholder)

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        value, names = F.col(E.VALUE), events.schema.names
        key_names = record_key_names(frame)
        has_tombstones = bool(key_names) and _DELETED not in names
        is_tombstone = value.isNull() & F.col(E.ERROR).isNull() & F.lit(has_tombstones)

        is_deleted = is_tombstone | _equals(value, names, _DELETED, "true") | _equals(value, names, _OP, "d")

        def row_column(name: str) -> Column:
            column = value.getField(name)
            if has_tombstones and name in key_names:
                column = F.coalesce(column, F.col(E.KEY).getField(name))
            return column.alias(name)

        # A tombstone carries no position of the database's: where tombstones count, the place orders all.
        fields = {} if has_tombstones else _position_fields(names)

        def source_field(name: str) -> Column:
            return value.getField(fields[name])

        return Changes(
            frame.where(value.isNotNull() | F.col(E.ERROR).isNotNull() | is_tombstone).select(
                *[row_column(name) for name in names],
                _text(value, names, _OP).alias(C.OP),
                is_deleted.alias(C.DELETED),
                *_key(events, frame, key),
                source_position(fields, source_field, F.col(E.PLACE)).alias(C.POSITION),
                *key_change_columns(
                    frame,
                    source_position(fields, source_field, F.lit("")),
                    has_unavailable=bool(fields and self.unavailable_tests(events.schema)),
                ),
                _commit_time(value, names).alias(C.COMMITTED),
                F.col(E.ERROR).alias(C.ERROR),
                *record_columns(events.topic, frame),
            ),
            envelope=False,
        )


def _position_fields(names: Collection[str]) -> dict[str, str]:
    """What a source block calls it → the column it was added as."""
    return {name: column for name in POSITION_FIELDS for column in (f"__source_{name}", f"__{name}") if column in names}


def _text(value: Column, names: Collection[str], name: str) -> Column:
    from pyspark.sql import functions as F

    return (value.getField(name) if name in names else F.lit(None)).cast("string")


def _equals(value: Column, names: Collection[str], name: str, text: str) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(_text(value, names, name) == text, F.lit(False))


def _commit_time(value: Column, names: Collection[str]) -> Column:
    from pyspark.sql import functions as F

    committed = next((value.getField(name) for name in ("__source_ts_ms", "__ts_ms") if name in names), F.lit(None))
    return committed.cast("bigint")


def _key(events: Events, frame: DataFrame, key: Collection[str]) -> list[Column]:
    """The KEY column: the record's own key, else the named columns; none when there is neither."""
    from pyspark.sql import functions as F

    known = events.schema
    columns = {name: (F.col(E.VALUE).getField(name), known[name].dataType) for name in key if name in known.names}
    if record_key_names(frame):
        return [fill_key(frame, columns).alias(C.KEY)]
    for name in key:
        if name not in columns:
            raise DataError(
                f"there is no key column {name!r}", where=f"topic {events.topic}", fix=did_you_mean(name, known.names)
            )
    return [F.struct(*[column.alias(name) for name, (column, _) in columns.items()]).alias(C.KEY)] if key else []
