"""Spark settings and options for files."""

from __future__ import annotations

#: Databases have dates before 1582. By default Spark 3 refuses to write or read them, as Spark 2 uses another calendar.
ANCIENT_DATES = {
    f"spark.sql.{values}RebaseModeIn{direction}": "CORRECTED"
    for values in ("parquet.datetime", "parquet.int96", "avro.datetime")
    for direction in ("Write", "Read")
}

#: Spark's JSON writer truncates timestamps to milliseconds by default.
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
#: Option of the writer for timestamps without a time zone. Readers need no pattern, and older files have fewer digits.
LOCAL_MICROSECONDS = {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
