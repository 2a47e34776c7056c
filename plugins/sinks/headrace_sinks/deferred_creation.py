"""Tables that are to be partitioned by a column which their first rows lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Batch, ConfigError, Table, WriteResult
from headrace.sdk.changes import DELETED, PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def defer_creation(
    table: Table, rows: DataFrame, batch: Batch, columns: Sequence[str], where: str
) -> WriteResult | None:
    """The result of a table's first batch that lacks one of ``columns``; None for one that has them all.

    The table is not made when the batch only removes rows, which need not have the others: nothing is written.
    ConfigError when there is a row to write.
    """
    from pyspark.sql import functions as F

    missing = next((column for column in columns if column not in rows.columns), None)
    if missing is None:
        return None
    upserts = rows.where(~F.col(DELETED)) if batch.mode == "upsert" else rows
    if upserts.count():
        names = ", ".join(c for c in rows.columns if not c.startswith(PREFIX))
        raise ConfigError(
            f"the table {table.name!r} has no column {missing!r} to be partitioned by; it has {names}",
            where=where,
            fix="correct the column, or let the table have no partitions",
        )
    return WriteResult(upserted=0)
