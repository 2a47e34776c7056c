"""Columns of a Hudi table: their names in files, and their allowed changes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: Names of Spark's structs for Avro unions, and the names under which Hudi stores them as structs.
_MEMBER, _HIDDEN_MEMBER = re.compile(r"member\d+"), re.compile(r"Member\d+")


def read_schema(spark: SparkSession, table: Any, *, with_meta_fields: bool = False) -> StructType | None:
    """Read the columns of a table's newest commit in Spark's types; None before the first commit.

    ``with_meta_fields``: include the columns that Hudi adds to each table.
    """
    from pyspark.sql.types import StructType

    jvm: Any = spark._jvm  # noqa: SLF001
    resolver = jvm.org.apache.hudi.common.table.TableSchemaResolver(table)
    schema = resolver.getTableSchemaIfPresent(with_meta_fields)
    if not schema.isPresent():
        return None
    convert = jvm.org.apache.hudi.HoodieSchemaConversionUtils.convertHoodieSchemaToStructType
    return StructType.fromJson(json.loads(convert(schema.get()).json()))


def can_widen(stored: DataType, wide: DataType, path: tuple[str, ...], fixed: Collection[str] = ()) -> bool:
    """Return whether Hudi can widen a column that has data. Spark's vectorized reader fails on nested fields of other types.

    ``fixed``: columns whose values Hudi also stores as strings in keys and paths. They are widened only if the strings stay the same.
    """
    from pyspark.sql import types as T

    if path[0] not in fixed:
        return len(path) == 1
    if isinstance(stored, T.DecimalType) and isinstance(wide, T.DecimalType):
        return stored.scale == wide.scale
    return (stored, wide) == (T.IntegerType(), T.LongType())


def hide_members(rows: DataFrame) -> DataFrame:
    """Return the rows with ``Member0`` instead of ``member0`` in structs with only such fields.

    Spark reads an Avro union as a struct with these names. Hudi stores every such struct as a union, and loses its values.
    """
    return _rename(rows, _MEMBER, "M")


def show_members(rows: DataFrame) -> DataFrame:
    """Return stored rows with the original names, which ``hide_members`` changed."""
    return _rename(rows, _HIDDEN_MEMBER, "m")


def check_members(stored: StructType, table: str) -> None:
    """Raise DataError if an existing table has a column of an Avro union, because Hudi loses its values."""
    for field in stored:
        if rename_members(field.dataType, _MEMBER, "M") != field.dataType:
            raise DataError(
                f"column {field.name!r} is stored as an Avro union, and Hudi loses its values",
                where=f"table {table}, sink hudi",
                fix="rewrite the table in another `path`",
            )


def rename_members(data_type: DataType, pattern: re.Pattern[str], first: str) -> DataType:
    """Return a type in which structs whose field names all match have names with another first letter, also in nested types."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        is_union = bool(data_type.names) and all(map(pattern.fullmatch, data_type.names))
        return T.StructType(
            [
                T.StructField(
                    first + field.name[1:] if is_union else field.name,
                    rename_members(field.dataType, pattern, first),
                    field.nullable,
                )
                for field in data_type
            ]
        )
    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(rename_members(data_type.elementType, pattern, first), data_type.containsNull)
    if isinstance(data_type, T.MapType):
        value = rename_members(data_type.valueType, pattern, first)
        return T.MapType(data_type.keyType, value, data_type.valueContainsNull)
    return data_type


def _rename(rows: DataFrame, pattern: re.Pattern[str], first: str) -> DataFrame:
    from pyspark.sql import functions as F

    types = {field.name: rename_members(field.dataType, pattern, first) for field in rows.schema}
    changed = {name: kind for name, kind in types.items() if kind != rows.schema[name].dataType}
    # Spark casts structs by position of their fields and ignores the names.
    return (
        rows.withColumns({name: F.col(quote_name(name)).cast(kind) for name, kind in changed.items()})
        if changed
        else rows
    )
