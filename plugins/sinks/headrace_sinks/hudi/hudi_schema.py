"""Columns of a Hudi table, and their allowed changes."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType


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

    ``fixed``: columns whose values are also strings in keys and paths. They are widened only if the strings stay the same.
    """
    from pyspark.sql import types as T

    if path[0] not in fixed:
        return len(path) == 1
    if isinstance(stored, T.DecimalType) and isinstance(wide, T.DecimalType):
        return stored.scale == wide.scale
    return (stored, wide) == (T.IntegerType(), T.LongType())
