"""Columns by name, and as steps of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def quote_name(name: str) -> str:
    """A column name as Spark's SQL reads it literally."""
    return "`" + name.replace("`", "``") + "`"


def barrier(column: Column) -> Column:
    """The column as a step of its own: a filter above is not written out in terms of what it is made from.

    Spark would do that once for every mention, and parse each time; with steps above steps such a plan has no end.
    """
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, column)
