"""Rows in the columns and types that a table has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.spark.columns import quote_name, select_texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def project(rows: DataFrame, want: StructType) -> DataFrame:
    """``rows`` with the columns of ``want``, in its order and types, nested ones too; null where ``rows`` has none."""
    theirs = {field.name: field.dataType for field in rows.schema}
    changed = {
        field.name: _cell(_column(field.name), theirs.get(field.name), field.dataType)
        for field in want
        if field.name not in theirs or not is_same_type(theirs[field.name], field.dataType)
    }
    return select_texts(rows.withColumns(changed) if changed else rows, [quote_name(name) for name in want.names])


def is_same_type(first: DataType, second: DataType) -> bool:
    """Whether two types are equal but for nullability, which tables and batches spell differently."""
    return first.simpleString() == second.simpleString()


def _cell(column: Column, come: DataType | None, want: DataType) -> Column:
    from pyspark.sql import functions as F, types as T

    if come is None:
        return F.lit(None).cast(want)
    if is_same_type(come, want):
        return column
    if isinstance(come, T.StructType) and isinstance(want, T.StructType):
        theirs = {field.name: field.dataType for field in come}
        cells = [_cell(column.getField(f.name), theirs.get(f.name), f.dataType).alias(f.name) for f in want]
        return F.when(column.isNotNull(), F.struct(*cells))
    if isinstance(come, T.ArrayType) and isinstance(want, T.ArrayType):
        inner, outer = come.elementType, want.elementType
        return F.transform(column, lambda item: _cell(item, inner, outer))
    if isinstance(come, T.MapType) and isinstance(want, T.MapType) and is_same_type(come.keyType, want.keyType):
        inner, outer = come.valueType, want.valueType
        return F.transform_values(column, lambda _, value: _cell(value, inner, outer))
    return column.cast(want)


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_name(name))
