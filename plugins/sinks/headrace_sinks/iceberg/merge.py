"""Upserts by MERGE, which compares each row with the stored one of its key."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.sdk import Table
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def merge(spark: SparkSession, name: str, table: Table, rows: DataFrame) -> None:
    """Commits what of the rows is newer than the stored row of its key, deletes among them.

    The rows have the columns of the table, and DELETED: `*` stands for the table's. Hundreds by name would be read as many times.
    """
    view = f"_headrace_{uuid.uuid4().hex}"
    rows.createTempView(view)
    newer = f"(t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION})"
    try:
        spark.sql(
            f"MERGE INTO {name} t USING {view} s "
            f"ON {' AND '.join(f't.{quote_name(k)} = s.{quote_name(k)}' for k in table.key)} "
            f"WHEN MATCHED AND s.{DELETED} AND {newer} THEN DELETE "
            f"WHEN MATCHED AND NOT s.{DELETED} AND {newer} "
            "THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT *"
        )
    finally:
        spark.catalog.dropTempView(view)
