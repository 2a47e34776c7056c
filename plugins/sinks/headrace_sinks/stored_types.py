"""Conversion of rows to the columns and types of an existing table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.columns import fold_name, quote_name
from headrace.sdk.schemas import is_same_type, promote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    #: Returns whether a format can widen a column with data from the first type to the second. The third argument is the path of the column.
    CanWiden = Callable[[DataType, DataType, tuple[str, ...]], bool]

#: Changes of a table's schema that one message lists.
_LISTED_CHANGES = 10


def union_by_name(
    stored: StructType,
    incoming: StructType,
    can_widen: CanWiden,
    path: tuple[str, ...] = (),
    *,
    has_deletes: bool = False,
) -> StructType:
    """Build the schema that holds the table's rows and the incoming rows. New columns come last.

    DataError for a type that the table's column cannot be widened to, and for a NOT NULL column without values. ``path``: the column
    of nested schemas. ``has_deletes``: the rows may lack NOT NULL columns, because they may be deletes with only a key.
    """
    from pyspark.sql.types import StructField, StructType

    new = {field.name: field.dataType for field in incoming}
    fields = []
    for field in stored:
        other = new.pop(field.name, None)
        if other is None and not (field.nullable or has_deletes):
            raise _make_not_null_error((*path, field.name))
        kind = field.dataType if other is None else _widen(field.dataType, other, can_widen, (*path, field.name))
        fields.append(StructField(field.name, kind))
    return StructType([*fields, *(StructField(name, kind) for name, kind in new.items())])


def describe_changes(stored: StructType, target: StructType) -> list[str]:
    """Return the new columns and widened types of a table as messages for users."""
    changes = list(find_changes(stored, target))
    texts = [
        f"new column {'.'.join(path)} ({kind.simpleString()})"
        if is_new
        else f"{'.'.join(path)} is now {kind.simpleString()}"
        for path, kind, is_new in changes[:_LISTED_CHANGES]
    ]
    more = len(changes) - len(texts)
    return [*texts, *([f"{more} more changes of columns"] if more else [])]


def find_changes(
    stored: DataType, target: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType, bool]]:
    """Find the columns to change: path, type, and whether the column is new."""
    from pyspark.sql import types as T

    if is_same_type(stored, target):
        return
    if isinstance(stored, T.StructType) and isinstance(target, T.StructType):
        known = {field.name: field.dataType for field in stored}
        for field in target:
            if field.name in known:
                yield from find_changes(known[field.name], field.dataType, (*path, field.name))
            else:
                yield (*path, field.name), field.dataType, True
    elif isinstance(stored, T.ArrayType) and isinstance(target, T.ArrayType):
        yield from find_changes(stored.elementType, target.elementType, (*path, "element"))
    elif isinstance(stored, T.MapType) and isinstance(target, T.MapType):
        yield from find_changes(stored.valueType, target.valueType, (*path, "value"))
    else:
        yield path, target, False


def check_stored_key(stored: StructType, key: Sequence[str], table: str, sink: str) -> None:
    """Raise DataError for a key column that the table does not have: its rows would be found by no change, and be doubled."""
    names = {fold_name(name) for name in stored.names}
    if missing := next((name for name in key if fold_name(name) not in names), None):
        raise DataError(
            f"the table has no column {missing!r}, which is part of the key of its rows",
            where=f"table {table}, sink {sink}",
            fix="rename the column back if another program renamed it; otherwise give the table another `target:`",
        )


def spell_as_stored(rows: DataFrame, stored: StructType) -> DataFrame:
    """Return the rows with the table's spelling of columns and fields, where names are case-insensitive."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return rows
    spelled = _spell(rows.schema, stored)
    assert isinstance(spelled, StructType)
    if spelled == rows.schema:
        return rows
    # Spark casts structs by position of their fields and ignores the names.
    return rows.select(
        *[
            F.col(quote_name(old)).cast(new.dataType).alias(new.name)
            for old, new in zip(rows.columns, spelled, strict=True)
        ]
    )


def spell_names(spark: SparkSession, names: Sequence[str], stored: StructType) -> tuple[str, ...]:
    """Return the table's spelling of column names, as ``spell_as_stored`` spells the columns of rows."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return tuple(names)
    known = {fold_name(name): name for name in stored.names}
    return tuple(known.get(fold_name(name), name) for name in names)


def _make_not_null_error(path: tuple[str, ...]) -> DataError:
    name = ".".join(path)
    return DataError(
        f"the table's column {name!r} is NOT NULL, and the events do not have it",
        fix=f"run `ALTER TABLE … ALTER COLUMN {name} DROP NOT NULL`, or add the column to the events",
    )


def _widen(stored: DataType, incoming: DataType, can_widen: CanWiden, path: tuple[str, ...]) -> DataType:
    from pyspark.sql import types as T

    if isinstance(stored, T.StructType) and isinstance(incoming, T.StructType):
        return union_by_name(stored, incoming, can_widen, path)
    if isinstance(stored, T.ArrayType) and isinstance(incoming, T.ArrayType):
        return T.ArrayType(_widen(stored.elementType, incoming.elementType, can_widen, (*path, "element")))
    if (
        isinstance(stored, T.MapType)
        and isinstance(incoming, T.MapType)
        and is_same_type(stored.keyType, incoming.keyType)
    ):
        return T.MapType(stored.keyType, _widen(stored.valueType, incoming.valueType, can_widen, (*path, "value")))
    try:
        wide = promote(stored, incoming)
    except DataError:
        wide = None
    if wide is not None and is_same_type(wide, stored):
        return stored
    if wide is None or not can_widen(stored, wide, path):
        raise DataError(
            f"column {'.'.join(path)!r} has type {incoming.simpleString()} in the batch and {stored.simpleString()} in the table",
            fix="change the type of the table's column, or cast the column in the source",
        )
    return wide


def _spell(incoming: DataType, stored: DataType) -> DataType:
    from pyspark.sql import types as T

    if isinstance(incoming, T.StructType) and isinstance(stored, T.StructType):
        known = {fold_name(field.name): field for field in stored}
        fields = []
        for field in incoming:
            other = known.get(fold_name(field.name))
            kind = _spell(field.dataType, other.dataType) if other else field.dataType
            fields.append(T.StructField(other.name if other else field.name, kind, field.nullable))
        return T.StructType(fields)
    if isinstance(incoming, T.ArrayType) and isinstance(stored, T.ArrayType):
        return T.ArrayType(_spell(incoming.elementType, stored.elementType), incoming.containsNull)
    if isinstance(incoming, T.MapType) and isinstance(stored, T.MapType):
        return T.MapType(incoming.keyType, _spell(incoming.valueType, stored.valueType), incoming.valueContainsNull)
    return incoming
