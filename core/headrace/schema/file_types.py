"""Schemas that file formats can store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[^\W\d]\w*")


def check_names(schema: StructType, file_format: str) -> None:
    """Raise DataError for a column or nested field whose name a file format does not allow."""
    for name in _field_names(schema):
        if not _NAME.fullmatch(name):
            raise DataError(
                f"{file_format} does not allow the column name {name!r}: names consist of letters, digits and '_' and do not start with a digit",
                fix="rename the column with `rename` under `transforms:`",
            )


def widen_small_ints(schema: StructType) -> StructType:
    """Return a schema with int instead of smaller integer types, for formats that lack them."""
    from pyspark.sql.types import StructType

    widened = _widen(schema)
    assert isinstance(widened, StructType)
    return widened


def _field_names(data_type: DataType) -> Iterator[str]:
    """Yield the names of all fields of a type, including nested fields."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        for field in data_type:
            yield field.name
            yield from _field_names(field.dataType)
    elif isinstance(data_type, T.ArrayType):
        yield from _field_names(data_type.elementType)
    elif isinstance(data_type, T.MapType):
        yield from _field_names(data_type.valueType)


def _widen(data_type: DataType) -> DataType:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return T.StructType([T.StructField(field.name, _widen(field.dataType)) for field in data_type])
    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_widen(data_type.elementType))
    if isinstance(data_type, T.MapType):
        return T.MapType(_widen(data_type.keyType), _widen(data_type.valueType))
    return T.IntegerType() if isinstance(data_type, T.ByteType | T.ShortType) else data_type
