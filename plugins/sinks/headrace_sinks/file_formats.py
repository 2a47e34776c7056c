"""What Spark, Avro and Parquet ask of who writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.sdk import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

#: Databases hold dates before 1582, which Spark 3 refuses to write or read, lest Spark 2 were to do the other.
ANCIENT_DATES = {
    f"spark.sql.{kind}RebaseModeIn{way}": "CORRECTED"
    for kind in ("parquet.datetime", "parquet.int96", "avro.datetime")
    for way in ("Write", "Read")
}
_NAME = re.compile(r"[^\W\d]\w*")


def check_names(schema: StructType, keeper: str) -> None:
    """DataError for a column, or a field inside one, that ``keeper`` cannot keep by its name."""
    for name in _names(schema):
        if not _NAME.fullmatch(name):
            raise DataError(
                f"{keeper} cannot keep a column called {name!r}: a name is letters, digits and '_', and starts with no digit",
                fix="give it another name with `rename` under `transforms:`",
            )


def without_small_ints(schema: StructType) -> StructType:
    """A schema with int for the smaller integers: Avro has none."""
    from pyspark.sql.types import StructType

    widened = _widened(schema)
    assert isinstance(widened, StructType)
    return widened


def _names(kind: DataType) -> Iterator[str]:
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        for field in kind:
            yield field.name
            yield from _names(field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _names(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _names(kind.valueType)


def _widened(kind: DataType) -> DataType:
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, _widened(field.dataType)) for field in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_widened(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_widened(kind.keyType), _widened(kind.valueType))
    return T.IntegerType() if isinstance(kind, T.ByteType | T.ShortType) else kind
