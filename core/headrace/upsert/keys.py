"""Keys of rows as strings, by which rows of different batches are matched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def key_text(rows: DataFrame, key: Sequence[str]) -> Column:
    """Return the key columns as an array of strings, which stay the same when a column's type is widened."""
    from pyspark.sql import functions as F

    return F.array(*[_cell_text(F.col(quote_name(name)), rows.schema[name].dataType) for name in key])


def _cell_text(column: Column, data_type: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, DecimalType, TimestampType

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
