"""Flat rows of ExtractNewRecordState: op, deletion and position are fields that start with ``__``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from headrace.sdk import Changes, RejectReason, changes as C, events as E
from headrace.sdk.changes import IMAGES
from headrace.sdk.columns import any_of, match_names
from headrace.sdk.events import record_columns
from headrace.sdk.positions import OFFSET_ORDER, position
from headrace_sources.dialects.debezium import ConnectorDialect, find_metadata_fields
from headrace_sources.dialects.log_positions import (
    CONNECTOR_NAME,
    SNAPSHOT_OP,
    fail_without_position,
    find_connector,
    list_position_fields,
    name_order,
    position_pattern,
    read_log_position,
    snapshot_columns,
)
from headrace_sources.dialects.record_columns import (
    SOURCE_PATH_FIELDS,
    SOURCE_TABLE_FIELDS,
    drop_tombstones_without_key,
    fill_key,
    find_key_columns,
    key_change_columns,
    record_key_names,
    source_path,
    source_table,
    spell_key_columns,
    with_tombstones,
)
from headrace_sources.dialects.unavailable_values import placeholder_tests

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.sdk import Events

_OP, _DELETED = "__op", "__deleted"
#: Fields of schema changes among rows. They are not columns of the table.
_METADATA = ("ddl", "tableChanges", "source")
#: Columns with SQL that come from the source block although their names lack ``source``.
_STATEMENTS = ("__query", "__redo_sql")


class FlatDialect(ConnectorDialect):
    """Records that are rows, with optional ``__op``, ``__deleted``, ``__lsn`` and others, with or without ``source_``.

    Rows without ``__deleted`` are deleted by tombstones. For other rows a tombstone may be the remainder of a delete.
    """

    name = "flat"
    api_version = 1
    priority = 100
    # The columns of a row may have the names of row images.
    row_fields = ()

    @classmethod
    def matches(cls, schema: StructType) -> bool:  # noqa: ARG003 - every schema without another dialect
        return True

    def source_table(self, schema: StructType, key: Collection[str]) -> Column | None:
        from pyspark.sql import functions as F

        columns = _source_fields(SOURCE_TABLE_FIELDS, schema.names)
        return source_table(columns, lambda name: F.col(columns[name]), key)

    def source_path(self, schema: StructType) -> Column | None:
        from pyspark.sql import functions as F

        columns = _source_fields(SOURCE_PATH_FIELDS, schema.names)
        return source_path(columns, lambda name: F.col(columns[name]))

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        connector = find_connector(_position_fields(schema.names))
        if connector and connector.sends_whole_rows:
            return {}
        fields = {name: schema[name].dataType for name in _row_names(schema)}
        return placeholder_tests(fields, self.config.unavailable_value_placeholder)

    def order(self, events: Events) -> str:
        has_tombstones = _has_tombstones(events.schema.names, getattr(events.key_schema, "names", ()))
        return OFFSET_ORDER if has_tombstones or events.by_offset else name_order(_position_fields(events.schema.names))

    def position_parts(self, events: Events) -> str | None:
        key_names, names = getattr(events.key_schema, "names", ()), events.schema.names
        is_delete = not key_names or _has_tombstones(names, key_names)
        return None if is_delete else position_pattern({} if events.by_offset else _position_fields(names))

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        value, names = F.col(E.VALUE), _row_names(events.schema)
        key_names = record_key_names(frame)
        key_of = {column: name for name, column in match_names(frame.sparkSession, names, key_names).items()}
        has_tombstones = _has_tombstones(names, key_names)
        # If rows have no deletion flag, each tombstone is a delete.
        records = frame if has_tombstones else drop_tombstones_without_key(frame)
        is_tombstone = value.isNull() & F.col(E.ERROR).isNull()
        is_deleted = _equals(value, names, _DELETED, "true") | _equals(value, names, _OP, "d")

        def row_column(name: str) -> Column:
            column = value.getField(name)
            if name in key_of:
                own = F.col(E.KEY).getField(key_of[name])
                column = F.coalesce(column, own if has_tombstones else own.cast(events.schema[name].dataType))
            return column.alias(name)

        # A tombstone has no log position. Where tombstones are the only deletes, the record's offset orders all changes.
        fields = {} if has_tombstones or events.by_offset else _position_fields(names)
        connector = find_connector(fields)
        is_change = value.isNotNull() & ~_equals(value, names, _OP, SNAPSHOT_OP)
        log_position, lacks_position = read_log_position(
            connector, fields, lambda name: value.getField(fields[name]), is_change
        )
        place_position = position(*log_position, place=F.col(E.PLACE))
        marker = next((value.getField(column) for column in _source_fields(["snapshot"], names).values()), None)
        return Changes(
            records.select(
                *[row_column(name) for name in names],
                _text(value, names, _OP).alias(C.OP),
                (is_tombstone | is_deleted).alias(C.DELETED),
                *_key(events, frame, key),
                (place_position if has_tombstones else with_tombstones(place_position, is_tombstone)).alias(C.POSITION),
                *key_change_columns(
                    frame,
                    position(*log_position, place=F.lit("")),
                    has_unavailable=bool(connector and self.unavailable_tests(events.schema)),
                ),
                *snapshot_columns(connector, log_position, marker),
                _commit_time(value, names).alias(C.COMMITTED),
                F.coalesce(_reject_reason(events.schema), fail_without_position(events.topic, lacks_position)).alias(
                    C.ERROR
                ),
                *record_columns(events.topic, frame),
            ),
            envelope=False,
            origins=_find_origins(names),
        )


def _has_tombstones(names: Collection[str], key_names: Collection[str]) -> bool:
    """Return whether tombstones are the only deletes of these rows."""
    return bool(key_names) and _DELETED not in names


def _row_names(schema: StructType) -> list[str]:
    """Return the columns of rows, without the fields of metadata."""
    metadata = _METADATA if find_metadata_fields(schema) else ()
    return [name for name in schema.names if name not in metadata]


def _reject_reason(schema: StructType) -> Column:
    """Return the reject reason of a record. ExtractNewRecordState does not change metadata records."""
    from pyspark.sql import functions as F

    marks = find_metadata_fields(schema)
    if not marks:
        return F.col(E.ERROR)
    is_metadata = any_of(F.col(E.VALUE).getField(name).isNotNull() for name in marks)
    return F.when(is_metadata, RejectReason.OP_NOT_A_ROW).otherwise(F.col(E.ERROR))


def _find_origins(names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the envelope's field of each column that ExtractNewRecordState or ExtractNewDocumentState added, by its name."""
    origins: dict[str, tuple[str, ...]] = {}
    for name in names:
        prefix, _, field = name.removeprefix("__").partition("_")
        if name.startswith("__") and prefix in (*IMAGES, "source", "updateDescription"):
            origins[name] = (prefix, field) if field else (prefix,)
        elif name in _STATEMENTS:
            origins[name] = ("source", name.removeprefix("__"))
    return origins


def _position_fields(names: Collection[str]) -> dict[str, str]:
    """Return the columns of the source fields that orders are chosen by and made from."""
    return _source_fields([CONNECTOR_NAME, *list_position_fields()], names)


def _source_fields(fields: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Return the columns of source fields."""
    return {name: column for name in fields for column in (f"__source_{name}", f"__{name}") if column in names}


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
    """Return the KEY column, from the record's key or from the named columns; empty if there are neither."""
    from pyspark.sql import functions as F

    known, has_own_key = events.schema.names, bool(record_key_names(frame))
    names = spell_key_columns(frame, key, known) if has_own_key else find_key_columns(events.topic, frame, key, known)
    columns = {name: F.col(E.VALUE).getField(name) for name in names}
    if has_own_key:
        return [fill_key(frame, columns).alias(C.KEY)]
    return [F.struct(*[column.alias(name) for name, column in columns.items()]).alias(C.KEY)] if key else []
