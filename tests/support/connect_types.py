"""Types that Kafka Connect's schemas describe."""

from __future__ import annotations

from pyspark.sql import types as T

_LEAVES = [
    T.BooleanType(),
    T.ByteType(),
    T.ShortType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.StringType(),
    T.BinaryType(),
    T.DateType(),
    T.TimestampType(),
    T.TimestampNTZType(),
    T.DecimalType(38, 9),
]
#: Row with a column of each type that contains no other.
ROW_OF_LEAVES = T.StructType([T.StructField(f"c{i}", leaf) for i, leaf in enumerate(_LEAVES)])
