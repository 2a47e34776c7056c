"""Deduplication: one change per key, the latest by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.changes import POSITION, PREFIX
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_RANK = PREFIX + "rank"


def latest_per_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the row with the highest POSITION of every key."""
    from pyspark.sql import Window, functions as F

    latest_first = Window.partitionBy(*[quote_name(k) for k in key]).orderBy(F.col(POSITION).desc())
    return rows.withColumn(_RANK, F.row_number().over(latest_first)).where(f"{_RANK} = 1").drop(_RANK)
