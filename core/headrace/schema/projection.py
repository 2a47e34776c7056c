"""Projection of rows to the columns and types of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.schema.promotion import find_spellings, promote
from headrace.spark.columns import name_fold, quote_name, select_texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType


def project(rows: DataFrame, want: StructType) -> DataFrame:
    """Return ``rows`` with the columns, order and types of ``want``, also in nested types. Missing columns are null."""
    present = {field.name: field.dataType for field in rows.schema}
    changed = {
        field.name: convert_type(_column(field.name), present.get(field.name), field.dataType)
        for field in want
        if field.name not in present or not is_same_type(present[field.name], field.dataType)
    }
    return select_texts(rows.withColumns(changed) if changed else rows, [quote_name(name) for name in want.names])


def align(rows: DataFrame, columns: StructType) -> DataFrame:
    """Return the rows of ``project``. Names of ``rows`` and of ``columns`` may differ by case."""
    fold = name_fold(rows.sparkSession)
    spelled = {fold(name): name for name in columns.names}
    names = {name: spelled[fold(name)] for name in rows.columns if fold(name) in spelled}
    return project(rows.withColumnsRenamed({old: new for old, new in names.items() if old != new}), columns)


def merge_columns(fields: Iterable[StructField], fold: Callable[[str], str]) -> StructType:
    """Return the columns of several tables in types that hold the values of all of them.

    Columns whose names are equal after ``fold`` are one column, with the first spelling.
    """
    from pyspark.sql import types as T

    by_name: dict[str, tuple[str, DataType]] = {}
    for field in fields:
        name, kind = by_name.get(fold(field.name), (field.name, field.dataType))
        by_name[fold(field.name)] = (name, promote(kind, field.dataType, name))
    return T.StructType([T.StructField(name, kind) for name, kind in by_name.values()])


def is_same_type(first: DataType, second: DataType) -> bool:
    """Return whether two types are equal except for nullability, which differs between tables and batches."""
    return first.simpleString() == second.simpleString()


def convert_type(column: Column, have: DataType | None, want: DataType) -> Column:
    """Return a column of the type ``have`` in the wider type ``want``, also in nested types. Fields that it lacks are null.

    The names of a field may differ by case.
    ``have``: None for a field that does not exist.
    """
    from pyspark.sql import functions as F, types as T

    if have is None:
        return F.lit(None).cast(want)
    if is_same_type(have, want):
        return column
    if isinstance(have, T.StructType) and isinstance(want, T.StructType):
        present, spellings = {field.name: field.dataType for field in have}, find_spellings(want.names, have.names)
        names = {f.name: spellings.get(f.name, f.name) for f in want}
        cells = [convert_type(column.getField(n), present.get(n), want[f].dataType).alias(f) for f, n in names.items()]
        return F.when(column.isNotNull(), F.struct(*cells))
    if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
        inner, outer = have.elementType, want.elementType
        return F.transform(column, lambda item: convert_type(item, inner, outer))
    if isinstance(have, T.MapType) and isinstance(want, T.MapType) and is_same_type(have.keyType, want.keyType):
        inner, outer = have.valueType, want.valueType
        return F.transform_values(column, lambda _, value: convert_type(value, inner, outer))
    return column.cast(want)


def convert_fitting(column: Column, have: StructType, want: StructType) -> Column:
    """Return a struct of the type ``have`` in the type ``want``. Fields whose values ``want`` cannot hold are null."""
    from pyspark.sql import functions as F, types as T

    present = {field.name: field.dataType for field in have}
    cells = []
    for field in want:
        kind, inner = present.get(field.name), column.getField(field.name)
        if isinstance(kind, T.StructType) and isinstance(field.dataType, T.StructType):
            cell = convert_fitting(inner, kind, field.dataType)
        elif kind is not None and _can_hold(field.dataType, kind):
            cell = convert_type(inner, kind, field.dataType)
        else:
            cell = F.lit(None).cast(field.dataType)
        cells.append(cell.alias(field.name))
    return F.when(column.isNotNull(), F.struct(*cells))


def _can_hold(outer: DataType, inner: DataType) -> bool:
    """Return whether a type holds all values of another type without widening."""
    try:
        return is_same_type(promote(outer, inner), outer)
    except DataError:
        return False


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_name(name))
