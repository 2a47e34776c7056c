"""Tables that are to be partitioned by a column which their first rows lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.sdk import DELETED, PREFIX, Batch, ConfigError, Table, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def not_made(table: Table, rows: DataFrame, batch: Batch, columns: Sequence[str], where: str) -> WriteResult | None:
    """What comes of a table's first batch that lacks one of ``columns``; None for one that has them all.

    Nothing, when it only removes rows, which need not say the others. ConfigError when there is a row to be written.
    """
    from pyspark.sql import functions as F

    lost = next((column for column in columns if column not in rows.columns), None)
    if lost is None:
        return None
    living = rows.where(~F.col(DELETED)) if batch.mode == "upsert" else rows
    if living.count():
        have = ", ".join(c for c in rows.columns if not c.startswith(PREFIX))
        raise ConfigError(
            f"the table {table.name!r} has no column {lost!r} to be partitioned by; it has {have}",
            where=where,
            fix="correct the column, or let the table have no partitions",
        )
    return WriteResult(upserted=0)
