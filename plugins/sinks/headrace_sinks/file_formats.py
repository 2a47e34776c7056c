"""Spark settings and options for files, and their limits."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.sdk.schemas import check_names

#: Settings for dates before 1582 in Avro. By default Spark 3 refuses to write or read them, as Spark 2 uses another calendar.
#: The core's sessions have the same settings for Parquet.
ANCIENT_DATES = {f"spark.sql.avro.datetimeRebaseModeIn{direction}": "CORRECTED" for direction in ("Write", "Read")}

#: Spark's JSON writer truncates timestamps to milliseconds by default.
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
#: Option of the writer for timestamps without a time zone. Readers need no pattern, and older files have fewer digits.
LOCAL_MICROSECONDS = {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


def check_avro_columns(columns: Iterable[str], file_format: str) -> None:
    """Raise DataError for a column whose name Avro does not allow. ``file_format``: the format for the error."""
    from pyspark.sql.types import NullType, StructField, StructType

    check_names(StructType([StructField(name, NullType()) for name in columns]), file_format)
