"""Slow readers of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.testing.tables import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plan_read(target: Target) -> DataFrame:
    """Plan a read of a table: the files are determined, and none is read yet."""
    frame = target.read()
    frame._jdf.queryExecution().executedPlan()
    return frame
