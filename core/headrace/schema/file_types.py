"""Schemas that formats of files can keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[^\W\d]\w*")


def check_names(schema: StructType, keeper: str) -> None:
    """DataError for a column, or a field inside one, that ``keeper`` cannot keep by its name."""
    for name in _field_names(schema):
        if not _NAME.fullmatch(name):
            raise DataError(
                f"{keeper} cannot keep a column called {name!r}: a name is letters, digits and '_', and starts with no digit",
                fix="give it another name with `rename` under `transforms:`",
            )


def widen_small_ints(schema: StructType) -> StructType:
    """A schema with int for the smaller integers, for formats that have none of these."""
    from pyspark.sql.types import StructType

    wide = _widen(schema)
    assert isinstance(wide, StructType)
    return wide


def _field_names(data_type: DataType) -> Iterator[str]:
    """The names of all fields of a type, nested ones too."""
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
