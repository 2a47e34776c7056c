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
    for name in (name for _, struct in list_structs(schema) for name in struct.names):
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


def list_structs(data_type: DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructType]]:
    """Yield each struct of a type with the names of the fields that lead to it: outer structs first, in lists and maps too."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        yield path, data_type
        for field in data_type:
            yield from list_structs(field.dataType, (*path, field.name))
    elif isinstance(data_type, T.ArrayType):
        yield from list_structs(data_type.elementType, path)
    elif isinstance(data_type, T.MapType):
        yield from list_structs(data_type.keyType, path)
        yield from list_structs(data_type.valueType, path)


def _widen(data_type: DataType) -> DataType:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return T.StructType([T.StructField(field.name, _widen(field.dataType)) for field in data_type])
    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_widen(data_type.elementType))
    if isinstance(data_type, T.MapType):
        return T.MapType(_widen(data_type.keyType), _widen(data_type.valueType))
    return T.IntegerType() if isinstance(data_type, T.ByteType | T.ShortType) else data_type
