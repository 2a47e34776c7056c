"""Types of the two images of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.schemas import find_spellings

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def unite_images(after: DataType, before: DataType) -> tuple[DataType, DataType]:
    """Return the types of both images, each with the additional fields of the other. Types of ``after`` stay.

    A name that differs by case keeps the spelling of its image, because JSON is read by it.
    """
    from pyspark.sql import types as T

    if isinstance(after, T.StructType) and isinstance(before, T.StructType):
        spellings = find_spellings(after.names, before.names)
        pairs = []
        for field in after:
            other = spellings.get(field.name, field.name)
            old = before[other].dataType if field.name in spellings else field.dataType
            types = unite_images(field.dataType, old)
            pairs.append((T.StructField(field.name, types[0]), T.StructField(other, types[1])))
        pairs += [(field, field) for field in before if field.name not in spellings.values()]
        return T.StructType([new for new, _ in pairs]), T.StructType([old for _, old in pairs])
    if isinstance(after, T.ArrayType) and isinstance(before, T.ArrayType):
        new, old = unite_images(after.elementType, before.elementType)
        return T.ArrayType(new), T.ArrayType(old)
    if isinstance(after, T.MapType) and isinstance(before, T.MapType):
        new, old = unite_images(after.valueType, before.valueType)
        return T.MapType(after.keyType, new), T.MapType(before.keyType, old)
    return after, after
