"""What Spark asks of who writes Avro and Parquet."""

from __future__ import annotations

#: Databases hold dates before 1582, which Spark 3 refuses to write or read, lest Spark 2 were to do the other.
ANCIENT_DATES = {
    f"spark.sql.{values}RebaseModeIn{direction}": "CORRECTED"
    for values in ("parquet.datetime", "parquet.int96", "avro.datetime")
    for direction in ("Write", "Read")
}
