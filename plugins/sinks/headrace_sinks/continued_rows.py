"""Rows of another writer in a table that a sink continues. They have no position, so every change replaces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.sdk import DataError, Table
from headrace.sdk.changes import POSITION
from headrace.sdk.columns import fold_name, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def check_continued_rows(stored: StructType, read: Callable[[], DataFrame], table: Table, sink: str) -> str | None:
    """Return a note about a table whose rows another writer wrote; None for an empty table and for one with positions.

    DataError if a key has several rows: a change would replace each of them, and the table would have the new row several times.
    ``read``: reads the table. Once, before the first batch, all values of the key columns are read.
    """
    from pyspark.sql import functions as F

    names = {fold_name(name) for name in stored.names}
    if POSITION in stored.names or not table.key or any(fold_name(name) not in names for name in table.key):
        return None
    keys = read().groupBy(*map(quote_name, table.key)).agg(F.count("*").alias("rows"))
    found = keys.agg(F.sum("rows").alias("rows"), F.count_if(F.col("rows") > 1).alias("repeated")).first()
    if found is None or not found["rows"]:
        return None
    if found["repeated"]:
        raise DataError(
            f"another writer created the table, and it has several rows for {found['repeated']:,} values of the key "
            f"({', '.join(table.key)})",
            where=f"table {table.name}, sink {sink}",
            fix="delete the outdated rows of these keys, name another `key:` in `tables:`, or give the table another `target:`",
        )
    return (
        f"continues a table of another writer: the first batch adds the column {POSITION}, and every change replaces or deletes the "
        f"row of its key, of {found['rows']:,} rows"
    )
