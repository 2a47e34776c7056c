"""Shapes of JSON: the types of records with their objects alone, in other objects and in lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def find_objects(kind: DataType) -> DataType | None:
    """Return the type with the fields that are objects, or lists of objects; None for other types."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, ArrayType):
        inner = find_objects(kind.elementType)
        return None if inner is None else ArrayType(inner)
    if not isinstance(kind, StructType):
        return None
    return _make_struct((field.name, find_objects(field.dataType)) for field in kind)


def find_most_objects(values: Sequence[Any]) -> DataType | None:
    """Return the type of parsed values with the fields that are objects, or lists of objects, in at least half of the values."""
    from pyspark.sql.types import ArrayType

    present = [value for value in values if value is not None]
    objects = [value for value in present if isinstance(value, dict)]
    if objects and 2 * len(objects) >= len(present):
        names = dict.fromkeys(name for value in objects for name in value)
        return _make_struct((name, find_most_objects([value.get(name) for value in objects])) for name in names)
    lists = [value for value in present if isinstance(value, list)]
    if lists and 2 * len(lists) >= len(present):
        inner = find_most_objects([item for value in lists for item in value])
        return None if inner is None else ArrayType(inner)
    return None


def has_shape(kind: DataType, objects: DataType) -> bool:
    """Return whether a type has objects where ``objects`` has them. A field may be missing."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(objects, ArrayType):
        return isinstance(kind, ArrayType) and has_shape(kind.elementType, objects.elementType)
    assert isinstance(objects, StructType)
    if not isinstance(kind, StructType):
        return False
    return all(has_shape(kind[name].dataType, objects[name].dataType) for name in objects.names if name in kind.names)


def _make_struct(fields: Iterable[tuple[str, DataType | None]]) -> DataType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, kind) for name, kind in fields if kind is not None])
