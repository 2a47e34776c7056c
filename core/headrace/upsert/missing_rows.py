"""Rows that their source no longer has, found by a comparison of keys."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.spark.columns import quote_name
from headrace.upsert.unavailable import FILLED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.upsert.table_sources import TableSources

_KEY = PREFIX + "current_key_"


def deletes_of_missing(
    stored: DataFrame, current: DataFrame, key: Sequence[str], topic: str, sources: TableSources
) -> DataFrame:
    """Return deletes of the stored rows of a topic whose key is not in ``current``, at positions just after theirs.

    Every stored row must have been read before ``current`` is read: then a row without a current key was deleted in between.
    """
    from pyspark.sql import functions as F

    position = F.coalesce(F.col(POSITION), F.lit(""))
    names = [topic, *(name for name in sources.names if name.startswith(f"{topic}/"))]
    is_of_topic = reduce(lambda a, b: a | b, [sources.is_of(position, name) for name in names])
    rows = stored.where(is_of_topic).select(*[stored[quote_name(name)].alias(name) for name in key], POSITION)
    # The table may have other types: sinks convert keys to them, too.
    columns = [F.col(quote_name(name)).cast(stored.schema[name].dataType) for name in key]
    keys = current.select(*[column.alias(f"{_KEY}{i}") for i, column in enumerate(columns)])
    is_same = [F.col(quote_name(name)) == F.col(f"{_KEY}{i}") for i, name in enumerate(key)]
    deleted = [F.lit(True).alias(DELETED), F.concat(position, F.lit(FILLED_SUFFIX)).alias(POSITION)]
    return rows.join(keys, is_same, "left_anti").select(*[F.col(quote_name(name)) for name in key], *deleted)
