"""Fields that no schema declares and whose names a sink refuses. A record with such a field must not stop its table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.engine.read.reserved_names import is_reserved
from headrace.errors import DataError
from headrace.schema.file_types import list_structs
from headrace.schema.projection import convert_type
from headrace.sdk.changes import DETAIL, ERROR, Changes
from headrace.sdk.events import Events
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import Sink, Table
from headrace.spark.columns import any_of, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType


def reject_refused_fields(
    changes: Changes, events: Events, table: str, sinks: Sequence[Sink], *, keeps_values: bool
) -> Changes:
    """Reject changes with a value in a field whose name a sink refuses, as FIELD_NAME, and drop the field, also from structs.

    Only fields without a declared type: all fields of events without schemas, and fields that a transform inferred from values.
    ``keeps_values`` keeps the fields, for dead letters.
    """
    from pyspark.sql import functions as F

    frame, schema, target = changes.frame, changes.frame.schema, Table(table, tuple(changes.key_columns))
    types = {n: schema[n].dataType for n in changes.event_columns if n not in changes.key_columns}
    present = {*types}.union(*map(_list_names, types.values())) - {*changes.key_columns}
    undeclared = _list_undeclared(types, changes, events) & present
    names = _find_unsupported(frame.sparkSession, target, undeclared, sinks)
    refused = {
        name: text for name in undeclared & {*types} if (text := _describe_reserved(name, sinks) or names.get(name))
    }
    kept = {name: kind for name, kind in types.items() if name not in refused}
    inner = undeclared & {name for kind in kept.values() for name in _list_names(kind)}
    texts = {name: text for name, text in names.items() if name in inner}
    tests = {text: F.col(quote_name(name)).isNotNull() for name, text in refused.items()}
    for name, text in sorted(texts.items()):
        columns = [column for column, kind in kept.items() if name in _list_names(kind)]
        tests[text] = any_of(_has_value(F.col(quote_name(column)), kept[column], name) for column in columns)
    if not tests:
        return changes
    changes = _reject(changes, tests)
    return changes if keeps_values else _drop_fields(changes, kept, [*refused], texts)


def _list_undeclared(types: dict[str, DataType], changes: Changes, events: Events) -> set[str]:
    """Return the names of the columns and nested fields that no schema declares."""
    if events.is_inferred:
        return {*types}.union(*map(_list_names, types.values()))
    inferred = () if changes.schemas is None else changes.schemas.list_schemas()
    return set[str]().union(*map(_list_names, inferred)) - {*_list_names(events.schema)}


def _list_names(kind: DataType) -> list[str]:
    return [name for _, struct in list_structs(kind) for name in struct.names]


def _describe_reserved(column: str, sinks: Iterable[Sink]) -> str | None:
    """Return why a table cannot have a column with this name, which a sink reserves; None if none does."""
    is_free = not any(is_reserved(sink, column) for sink in sinks)
    return None if is_free else f"a sink reserves the name {column!r}: rename it under `transforms:`"


def _find_unsupported(
    spark: SparkSession, table: Table, names: Collection[str], sinks: Iterable[Sink]
) -> dict[str, str]:
    """Return the names of columns and nested fields that a sink does not support, with the reasons.

    All names are checked at once first: a sink may read its table to check them.
    """
    found: dict[str, str] = {}
    for sink in sinks:
        if _check_names(spark, table, names, sink) is not None:
            reasons = {name: _check_names(spark, table, [name], sink) for name in names if name not in found}
            found |= {name: reason for name, reason in reasons.items() if reason is not None}
    return found


def _check_names(spark: SparkSession, table: Table, names: Collection[str], sink: Sink) -> str | None:
    """Return why a sink does not support one of the names; None if it supports all of them."""
    try:
        sink.check_columns(spark, table, names)
    except DataError as error:
        return error.what
    return None


def _reject(changes: Changes, tests: dict[str, Column]) -> Changes:
    """Reject changes for which a test is true. ``tests``: description → condition."""
    from pyspark.sql import functions as F

    frame = changes.frame
    error = F.coalesce(F.col(ERROR), F.when(any_of(tests.values()), F.lit(RejectReason.FIELD_NAME)))
    frame = frame.withColumn(ERROR, error)
    if DETAIL in frame.columns:
        details = [F.when(found, F.lit(text)) for text, found in tests.items()]
        frame = frame.withColumn(DETAIL, F.coalesce(F.col(DETAIL), *details))
    return replace(changes, frame=frame)


def _drop_fields(
    changes: Changes, types: dict[str, DataType], columns: Sequence[str], nested: Collection[str]
) -> Changes:
    """Return the changes without ``columns``, and without ``nested`` fields in the other columns, whose types are ``types``."""
    from pyspark.sql import functions as F

    kept = {name: _keep_fields(kind, nested) for name, kind in types.items()}
    empty = [name for name, kind in kept.items() if kind is None]
    changed = {
        name: convert_type(F.col(quote_name(name)), types[name], kind)
        for name, kind in kept.items()
        if kind is not None and kind != types[name]
    }
    return replace(changes, frame=changes.frame.withColumns(changed).drop(*columns, *empty))


def _has_value(column: Column, kind: DataType, field: str) -> Column:
    """Return whether a nested field with this name has a value, also in lists."""
    from pyspark.sql import functions as F, types as T

    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        found = F.exists(column, lambda item: F.coalesce(_has_value(item, inner, field), F.lit(False)))
        return F.coalesce(found, F.lit(False))
    if not isinstance(kind, T.StructType):
        return F.lit(False)
    own = [column.getField(field).isNotNull()] if field in kind.names else []
    others = [f for f in kind if f.name != field and field in _list_names(f.dataType)]
    return any_of([*own, *[_has_value(column.getField(f.name), f.dataType, field) for f in others]])


def _keep_fields(kind: DataType, refused: Collection[str]) -> DataType | None:
    """Return a type without the fields with refused names; None if it loses all of its fields."""
    from pyspark.sql import types as T

    if isinstance(kind, T.ArrayType):
        inner = _keep_fields(kind.elementType, refused)
        return None if inner is None else T.ArrayType(inner, kind.containsNull)
    if not isinstance(kind, T.StructType) or not kind.fields:
        return kind
    found = [(f, _keep_fields(f.dataType, refused)) for f in kind if f.name not in refused]
    fields = [T.StructField(f.name, inner, f.nullable, f.metadata) for f, inner in found if inner is not None]
    return T.StructType(fields) if fields else None
