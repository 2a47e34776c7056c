"""Upserts by Delta's MERGE, which compares each row with the stored row of the same key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import Table
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.sessions import materialize
from headrace_sinks.delta.delta_handle import DeltaHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Delta would copy rows that it reads twice. Here they are materialized, which also counts them.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


def merge(handle: DeltaHandle, table: Table, rows: DataFrame) -> None:
    """Commit the rows and deletes that are newer than the stored rows of their keys.

    The rows have the columns of the table and DELETED. ``updateAll`` and ``insertAll`` take the table's columns.
    """
    newer = f"(t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION})"
    same_key = " AND ".join(f"t.{quote_name(key)} = s.{quote_name(key)}" for key in table.key)
    handle.spark.conf.set(_MATERIALIZE, "none")
    with materialize(rows) as stable:
        (
            handle.table.alias("t")
            .merge(stable.alias("s")._jdf, same_key)  # noqa: SLF001
            .whenMatched(f"s.{DELETED} AND {newer}")
            .delete()
            .whenMatched(f"NOT s.{DELETED} AND {newer}")
            .updateAll()
            .whenNotMatched(f"NOT s.{DELETED}")
            .insertAll()
            .execute()
        )
