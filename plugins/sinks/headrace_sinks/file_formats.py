"""Spark settings for Avro and Parquet files."""

from __future__ import annotations

#: Databases have dates before 1582. By default Spark 3 refuses to write or read them, as Spark 2 uses another calendar.
ANCIENT_DATES = {
    f"spark.sql.{values}RebaseModeIn{direction}": "CORRECTED"
    for values in ("parquet.datetime", "parquet.int96", "avro.datetime")
    for direction in ("Write", "Read")
}
