"""Deferred creation of partitioned tables whose first rows lack a partition column."""

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
    """Return the result of a first batch that lacks one of ``columns``; None for a batch that has all of them.

    A batch of deletes may lack columns: nothing is written, and the table is not created. ConfigError when the batch has rows to
    write.
    """
    from pyspark.sql import functions as F

    missing = next((column for column in columns if column not in rows.columns), None)
    if missing is None:
        return None
    upserts = rows.where(~F.col(DELETED)) if batch.mode == "upsert" else rows
    if upserts.count():
        names = ", ".join(c for c in rows.columns if not c.startswith(PREFIX))
        raise ConfigError(
            f"table {table.name!r} has no column {missing!r} to partition by; its columns are {names}",
            where=where,
            fix="correct the column, or remove the partitioning of the table",
        )
    return WriteResult(upserted=0)
