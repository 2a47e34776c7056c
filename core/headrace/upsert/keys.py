"""Keys of rows as strings, by which rows of different batches are matched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def key_text(rows: DataFrame, key: Sequence[str]) -> Column:
    """Return the key columns as an array of strings, which stay the same when a column's type is widened."""
    from pyspark.sql import functions as F

    return F.array(*[_cell_text(F.col(quote_name(name)), rows.schema[name].dataType) for name in key])


def struct_key_text(rows: DataFrame, column: str, key: Sequence[str]) -> Column:
    """Return the key in a struct column as ``key_text`` returns that of the row; null without a key."""
    from pyspark.sql import functions as F

    fields: Any = rows.schema[column].dataType
    cells = [_cell_text(F.col(column).getField(name), fields[name].dataType) for name in key]
    return F.when(F.col(column).isNotNull(), F.array(*cells))


def parse_cell_text(text: Column, data_type: DataType) -> Column:
    """Return the value of one column of a key from its string in ``key_text``."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, BinaryType, StructType, TimestampType

    if isinstance(data_type, ArrayType | StructType):
        return F.from_json(text, data_type)
    if isinstance(data_type, BinaryType):
        return F.unhex(text)
    if isinstance(data_type, TimestampType):
        return F.timestamp_micros(text.cast("bigint"))
    return text.cast(data_type)


def _cell_text(column: Column, data_type: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, BinaryType, DecimalType, DoubleType, FloatType, StructType, TimestampType

    if isinstance(data_type, ArrayType | StructType):  # As strings, ["a, b"] and ["a", "b"] are the same.
        return F.to_json(column)
    if isinstance(data_type, FloatType | DoubleType):  # -0.0 equals 0.0.
        column += F.lit(0.0).cast(data_type)
    if isinstance(data_type, BinaryType):
        return F.hex(column)
    if isinstance(
        data_type, TimestampType
    ):  # Not its local time, which repeats an hour at the end of daylight saving time.
        return F.unix_micros(column).cast("string")
    text = column.cast("string")
    if isinstance(data_type, DecimalType):  # 1.10 in a column with a larger scale.
        return F.when(text.contains("."), F.regexp_replace(text, r"\.?0+$", "")).otherwise(text)
    return text
