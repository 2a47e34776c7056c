"""Splitting of topics that a rule routes by a field, into the parts of their tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from headrace.dead_letters.rows import keep_numbers, number_in_file
from headrace.errors import DataError
from headrace.sdk import events as E
from headrace.sdk.changes import PREFIX
from headrace.sdk.events import Events
from headrace.sdk.schema_log import SchemaLog
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PART = PREFIX + "part"


def split_topic(
    session: SparkSession,
    schemas: SchemaLog,
    events: Events,
    by: Sequence[str],
    row_fields: Collection[str],
    *,
    in_files: bool,
) -> list[Events]:
    """Split the events of a topic by the values of the fields ``by``; events without a value have no part.

    It takes a pass over the batch. A topic's schema has the columns of all its tables. A part's schema has the columns in which a
    record of the part had a value, in this batch or before. ``row_fields``: the events' fields that are rows; ``in_files``: records
    are numbered within their file.
    """
    part = _part_column(events, by, row_fields)
    values, keys = _list_columns(events.schema, E.VALUE, row_fields), _list_columns(events.key_schema, E.KEY, ())
    # A tombstone does not identify its table.
    frame = E.drop_tombstones(events.load(session, events.schema))
    rows = frame.groupBy(part.alias(_PART)).agg(_names_with_values(values), _names_with_values(keys)).collect()
    parts = []
    for name, value_names, key_names in rows:
        is_part = part.isNull() if name is None else part == name
        found = replace(events, part=name, load=partial(_load_part, events, is_part, in_files))
        if name is not None:
            columns = _remember(schemas, f"{events.topic}/{name}-value", value_names)
            found = replace(found, schema=_keep_columns(events.schema, columns, row_fields))
        if name is not None and events.key_schema is not None:
            key = _keep_columns(events.key_schema, _remember(schemas, f"{events.topic}/{name}-key", key_names), ())
            found = replace(found, key_schema=key, load=partial(_load_part, events, is_part, in_files, key=key.names))
        parts.append(found)
    return sorted(parts, key=lambda found: found.part or "")


def _part_column(events: Events, by: Sequence[str], row_fields: Collection[str]) -> Column:
    """Return the values of the fields, joined with dots; null if a value is missing."""
    from pyspark.sql import functions as F

    columns = []
    for path in by:
        top, _, field = path.partition(".")
        struct = events.schema[top].dataType if top in events.schema.names else None
        known = {name: getattr(events.schema[name].dataType, "names", ()) for name in events.schema.names}
        if struct is None or top in row_fields or (field and field not in known[top]):
            paths = [f"{name}.{inner}" for name in known if name not in row_fields for inner in known[name]]
            raise DataError(
                f"`route.by.field` names {path!r}, which its events do not have outside the row",
                where=f"topic {events.topic}",
                fix=did_you_mean(path, paths or known),
            )
        column = F.col(E.VALUE).getField(top)
        columns.append((column.getField(field) if field else column).cast("string"))
    has_all = reduce(lambda a, b: a & b, [column.isNotNull() & (column != "") for column in columns])
    return F.when(has_all, F.concat_ws(".", *columns))


def _list_columns(schema: StructType | None, column: str, row_fields: Collection[str]) -> Mapping[str, list[Column]]:
    """Return column of a row or key → its values: from the fields that are rows, or from the struct itself if it has none."""
    from pyspark.sql import functions as F

    columns: dict[str, list[Column]] = {}
    rows = [name for name in row_fields if _names(schema, name)]
    for row in rows:
        for name in _names(schema, row):
            columns.setdefault(name, []).append(F.col(column).getField(row).getField(name))
    if not rows and schema is not None:
        columns = {name: [F.col(column).getField(name)] for name in schema.names}
    return columns


def _names_with_values(columns: Mapping[str, Sequence[Column]]) -> Column:
    """Return the names of the columns in which a record of a group has a value."""
    from pyspark.sql import functions as F

    found = [
        F.when(F.max(reduce(lambda a, b: a | b, [value.isNotNull() for value in values])), F.lit(name))
        for name, values in columns.items()
    ]
    return F.array_compact(F.array(*found)) if found else F.array().cast("array<string>")


def _remember(schemas: SchemaLog, name: str, found: Collection[str]) -> Collection[str]:
    """Return the names that were found for a part in this batch or before, and save them."""
    from pyspark.sql.types import StringType, StructField, StructType

    known = schemas.get(name)
    names = list(dict.fromkeys([*(known.names if known else ()), *found]))
    schemas.remember(name, StructType([StructField(column, StringType()) for column in names]))
    return names


def _keep_columns(schema: StructType, names: Collection[str], row_fields: Collection[str]) -> StructType:
    """Return the schema of a value or a key, its rows with these columns only."""
    from pyspark.sql.types import StructField, StructType

    rows = [name for name in row_fields if _names(schema, name)]
    if not rows:
        return StructType([field for field in schema if field.name in names])
    fields = []
    for field in schema:
        row: Any = field.dataType
        kept = StructType([inner for inner in row if inner.name in names]) if field.name in rows else row
        fields.append(StructField(field.name, kept))
    return StructType(fields)


def _load_part(
    events: Events,
    is_part: Column,
    in_files: bool,  # noqa: FBT001 - bound by `partial`, before the arguments of a reader
    session: SparkSession,
    schema: StructType,
    *,
    key: Collection[str] | None = None,
) -> DataFrame:
    """Load the events of a part. Every record of the topic is read for it."""
    from pyspark.sql import functions as F

    frame = E.drop_tombstones(events.load(session, schema))
    if in_files:  # Dead letters are numbered within the file, across all parts.
        frame = frame.withColumn(E.OFFSET, number_in_file(E.OFFSET, E.FILE, E.PLACE)).where(is_part)
        frame = keep_numbers(frame, E.OFFSET, E.FILE, E.PLACE)
    else:
        frame = frame.where(is_part)
    if key is None:
        return frame
    fields = F.struct(*[F.col(E.KEY).getField(name).alias(name) for name in key])
    return frame.withColumn(E.KEY, F.when(F.col(E.KEY).isNotNull(), fields))


def _names(schema: StructType | None, name: str) -> Sequence[str]:
    """Return the fields of a struct field."""
    names: Sequence[str] = (
        getattr(schema[name].dataType, "names", ()) if schema is not None and name in schema.names else ()
    )
    return names
