"""Upserts by MERGE, which compares each row with the stored row of the same key."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.sdk import Table
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace_sinks.iceberg.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merge(handle: TableHandle, table: Table, rows: DataFrame) -> None:
    """Commit the rows and deletes that are newer than the stored rows of their keys.

    The rows have the columns of the table and DELETED. `*` stands for the table's columns: Spark would resolve each of hundreds
    of named columns separately.
    """
    view = f"_headrace_{uuid.uuid4().hex}"
    rows.createTempView(view)
    newer = f"(t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION})"
    try:
        handle.spark.sql(
            f"MERGE INTO {handle.name} t USING {view} s "
            f"ON {' AND '.join(f't.{quote_name(k)} = s.{quote_name(k)}' for k in table.key)} "
            f"WHEN MATCHED AND s.{DELETED} AND {newer} THEN DELETE "
            f"WHEN MATCHED AND NOT s.{DELETED} AND {newer} "
            "THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT *"
        )
    finally:
        handle.spark.catalog.dropTempView(view)
