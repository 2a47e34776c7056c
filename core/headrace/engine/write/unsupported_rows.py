"""Rejection of changes that the table of a sink cannot hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.engine.write.table_plan import decide_mode
from headrace.sdk.changes import ERROR, Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import Sink, Table
from headrace.spark.columns import any_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reject_unsupported(changes: Changes, table: str, sinks: Iterable[Sink], session: SparkSession) -> Changes:
    """Reject changes that the table of one of the sinks cannot hold, as UNSUPPORTED_VALUE."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if not changes.event_columns:  # No record could be read.
        return changes
    target = Table(table, tuple(changes.key_columns))
    row = StructType([changes.frame.schema[c] for c in changes.event_columns])
    found = [sink.find_unsupported(session, target, decide_mode(sink, changes), row) for sink in sinks]
    conditions = [condition for condition in found if condition is not None]
    if not conditions:
        return changes
    error = F.when(any_of(conditions), F.lit(RejectReason.UNSUPPORTED_VALUE))
    return replace(changes, frame=changes.frame.withColumn(ERROR, F.coalesce(F.col(ERROR), error)))
