"""Tables that are to be partitioned by a column which their first rows lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contracts.changes import DELETED, PREFIX
from headrace.contracts.sink import Batch, Table, Written
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def lacking(rows: DataFrame, columns: Sequence[str]) -> list[str]:
    """Those of the columns that the rows have not."""
    return [column for column in columns if column not in rows.columns]


def not_made(table: Table, rows: DataFrame, batch: Batch, column: str, where: str) -> Written:
    """What comes of a table's first batch that lacks a column: nothing when it only removes rows, which need not say the others.

    ConfigError when there is a row to be written.
    """
    from pyspark.sql import functions as F

    living = rows.where(~F.col(DELETED)) if batch.mode == "upsert" else rows
    if living.count():
        have = ", ".join(c for c in rows.columns if not c.startswith(PREFIX))
        raise ConfigError(
            f"the table {table.name!r} has no column {column!r} to be partitioned by; it has {have}",
            where=where,
            fix="correct the column, or let the table have no partitions",
        )
    return Written(upserted=0)
