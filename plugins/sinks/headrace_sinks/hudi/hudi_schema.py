"""The columns of a Hudi table, and how they may change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType


def read_schema(spark: SparkSession, table: Any, *, hudis_own: bool = False) -> StructType | None:
    """A table's columns in Spark's types, as its newest commit has them; None before its first commit.

    ``hudis_own``: with those that Hudi adds to each table.
    """
    from pyspark.sql.types import StructType

    jvm: Any = spark._jvm  # noqa: SLF001
    resolver = jvm.org.apache.hudi.common.table.TableSchemaResolver(table)
    schema = resolver.getTableSchemaIfPresent(hudis_own)
    if not schema.isPresent():
        return None
    convert = jvm.org.apache.hudi.HoodieSchemaConversionUtils.convertHoodieSchemaToStructType
    return StructType.fromJson(json.loads(convert(schema.get()).json()))


def can_widen(stored: DataType, wide: DataType, path: tuple[str, ...]) -> bool:  # noqa: ARG001 - whatever it becomes
    """What Hudi widens and Spark reads: columns. Files with another type inside a column stop Spark's usual reader."""
    return len(path) == 1
