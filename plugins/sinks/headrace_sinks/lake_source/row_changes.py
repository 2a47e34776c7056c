"""Rows that differ between two versions of a table."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import quote_name
from headrace.sdk.schemas import project
from headrace_sinks.map_keys import contains_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

#: Columns of the result: whether the newer version lacks the row, and the number of the row among equal rows.
GONE, COPY = PREFIX + "gone", PREFIX + "copy"
_SIGN, _SUM = PREFIX + "sign", PREFIX + "sum"


def compare_rows(older: DataFrame, newer: DataFrame, row: StructType) -> DataFrame:
    """Return the rows that only one of two versions has, with GONE and COPY. An update is one row of each version.

    ``row``: the columns that are compared. Equal rows are counted, because a table without a key may have a row several times.
    """
    from pyspark.sql import functions as F

    sides = [project(frame, row).withColumn(_SIGN, F.lit(sign)) for frame, sign in ((older, -1), (newer, 1))]
    both = reduce(lambda a, b: a.unionByName(b), sides)
    cells = {field.name: F.col(quote_name(field.name)) for field in row}
    # Spark does not group by maps.
    maps = [field.name for field in row if contains_type(field.dataType, _is_map)]
    groups = [
        as_comparable(cells[f.name], f.dataType).alias(f"{PREFIX}map_{number}") if f.name in maps else cells[f.name]
        for number, f in enumerate(row)
    ]
    first = [F.first(cells[name]).alias(name) for name in maps]
    found = both.groupBy(*groups).agg(F.sum(_SIGN).alias(_SUM), *first).where(F.col(_SUM) != 0)
    copies = F.explode(F.sequence(F.lit(1), F.abs(_SUM).cast("int"))).alias(COPY)
    return found.select(*cells.values(), (F.col(_SUM) < 0).alias(GONE), copies)


def as_comparable(column: Column, kind: DataType) -> Column:
    """Return a value with arrays of entries, sorted by key, in place of maps."""
    from pyspark.sql import functions as F, types as T

    if not contains_type(kind, _is_map):
        return column
    if isinstance(kind, T.StructType):
        cells = [as_comparable(column.getField(field.name), field.dataType).alias(field.name) for field in kind]
        return F.when(column.isNotNull(), F.struct(*cells))
    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        return F.transform(column, lambda item: as_comparable(item, inner))
    assert isinstance(kind, T.MapType)
    value = kind.valueType
    return F.transform(
        F.array_sort(F.map_keys(column)),
        lambda key: F.struct(key.alias("key"), as_comparable(F.element_at(column, key), value).alias("value")),
    )


def _is_map(kind: DataType) -> bool:
    return kind.typeName() == "map"
