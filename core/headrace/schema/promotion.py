"""Common types for records of several schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.spark.columns import fold_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def find_spellings(names: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Return name → the matching name of ``others``.

    Equal names match. Names that differ only by case match if neither list has both spellings.
    """
    known, own = set(others), set(names)
    exact = {name: name for name in names if name in known}
    if len(exact) == len(own):
        return exact
    folded = {fold_name(other): other for other in reversed(others) if other not in own}
    spellings = dict(exact)
    for name in names:
        # Each name of `others` matches at most one name.
        if name not in exact and (other := folded.pop(fold_name(name), None)) is not None:
            spellings[name] = other
    return spellings


def promote(first: DataType, second: DataType, path: str = "") -> DataType:
    """Return a type that holds the values of both: the fields of both structs, the wider of two numbers.

    Names that differ only by case are one field, with the spelling of ``first``. DataError if no such type exists; ``path`` is the
    column in its message.
    """
    from pyspark.sql import types as T

    if first == second:
        return first
    if isinstance(first, T.StructType) and isinstance(second, T.StructType):
        other_fields = {field.name: field for field in second}
        spellings = find_spellings(first.names, second.names)
        fields = []
        for field in first:
            other = other_fields.pop(spellings.get(field.name, ""), None)
            inner = f"{path}.{field.name}" if path else field.name
            kind = promote(field.dataType, other.dataType, inner) if other else field.dataType
            fields.append(T.StructField(field.name, kind, nullable=True))
        return T.StructType(
            [*fields, *(T.StructField(f.name, f.dataType, nullable=True) for f in other_fields.values())]
        )
    if isinstance(first, T.ArrayType) and isinstance(second, T.ArrayType):
        return T.ArrayType(promote(first.elementType, second.elementType, path), containsNull=True)
    if isinstance(first, T.MapType) and isinstance(second, T.MapType):
        kinds = promote(first.keyType, second.keyType, path), promote(first.valueType, second.valueType, path)
        return T.MapType(*kinds, valueContainsNull=True)
    if isinstance(first, T.NullType) or isinstance(second, T.NullType):
        return second if isinstance(first, T.NullType) else first
    number = _wider_number(first, second)
    if number is None:
        raise DataError(
            f"the column {path!r} is {first.simpleString()} in some records and {second.simpleString()} in others",
            fix="read the two types with separate pipelines, or cast the column in the producer of the events",
        )
    return number


def union_schemas(kinds: Mapping[str, StructType], where: str, *, aside: bool) -> tuple[StructType, list[str]]:
    """Return the type that holds the rows of all schemas, and the names of schemas that conflict with earlier ones.

    DataError with ``where`` for a conflict, unless ``aside`` is true.
    """
    from pyspark.sql.types import StructType

    union: DataType = next(iter(kinds.values()), StructType([]))
    conflicting = []
    for name, kind in kinds.items():
        try:
            union = promote(union, kind)
        except DataError as error:
            if not aside:
                error.where = where
                raise
            conflicting.append(name)
    assert isinstance(union, StructType)
    return union, conflicting


def union_equal(first: StructType, second: StructType) -> StructType | None:
    """Return the fields of both structs, all nullable; None if a common field has two types."""
    from pyspark.sql.types import StructField, StructType

    only_second = {field.name: field for field in second}
    fields = []
    for field in first:
        other = only_second.pop(field.name, None)
        data_type = field.dataType
        if other is not None and data_type != other.dataType:
            if not isinstance(data_type, StructType) or not isinstance(other.dataType, StructType):
                return None
            union = union_equal(data_type, other.dataType)
            if union is None:
                return None
            data_type = union
        fields.append(StructField(field.name, data_type, nullable=True))
    return StructType([*fields, *(StructField(f.name, f.dataType, nullable=True) for f in only_second.values())])


def add_missing_fields(known: DataType, found: DataType) -> DataType:
    """Return ``known`` with the additional fields of ``found``. Known types stay unchanged."""
    from pyspark.sql import types as T

    if isinstance(known, T.StructType) and isinstance(found, T.StructType):
        other_fields = {field.name: field for field in found}
        fields = []
        for field in known:
            other = other_fields.pop(field.name, None)
            fields.append(
                T.StructField(
                    field.name, add_missing_fields(field.dataType, other.dataType) if other else field.dataType
                )
            )
        return T.StructType([*fields, *other_fields.values()])
    if isinstance(known, T.ArrayType) and isinstance(found, T.ArrayType):
        return T.ArrayType(add_missing_fields(known.elementType, found.elementType))
    if isinstance(known, T.MapType) and isinstance(found, T.MapType):
        return T.MapType(known.keyType, add_missing_fields(known.valueType, found.valueType))
    return known


def _wider_number(first: DataType, second: DataType) -> DataType | None:
    """Return the number type to which databases widen both; None if there is none."""
    from pyspark.sql import types as T

    integers = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    for ladder in (integers, (T.FloatType, T.DoubleType)):
        if isinstance(first, ladder) and isinstance(second, ladder):
            return max(first, second, key=lambda kind: ladder.index(type(kind)))
    # A DOUBLE represents integers of 53 bits exactly: every INT, but not every BIGINT.
    exact = (T.ByteType, T.ShortType, T.IntegerType, T.FloatType, T.DoubleType)
    if isinstance(first, exact) and isinstance(second, exact):
        return T.DoubleType()
    if isinstance(first, T.DecimalType) and isinstance(second, T.DecimalType):
        scale = max(first.scale, second.scale)
        precision = max(first.precision - first.scale, second.precision - second.scale) + scale
        return T.DecimalType(precision, scale) if precision <= 38 else None
    return None
