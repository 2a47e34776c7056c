"""Deferred creation of partitioned tables whose first rows lack a partition column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    if all(column in rows.columns for column in columns):
        return None
    upserts = rows.where(~F.col(DELETED)) if batch.mode == "upsert" else rows
    if upserts.count():
        check_partition_columns(table, rows.columns, columns, where)
    return WriteResult(upserted=0)


def check_partition_columns(table: Table, names: Iterable[str], columns: Sequence[str], where: str) -> None:
    """Raise ConfigError when a table with the column ``names`` lacks one of the partition ``columns``."""
    names = [name for name in names if not name.startswith(PREFIX)]
    missing = next((column for column in columns if column not in names), None)
    if missing is not None:
        raise ConfigError(
            f"table {table.name!r} has no column {missing!r} to partition by; its columns are {', '.join(names)}",
            where=where,
            fix="correct the column, or remove the partitioning of the table",
        )
