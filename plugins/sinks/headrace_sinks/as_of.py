"""Values of ``as_of``: a version, or a timestamp in the session's time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Fix for a version that has expired.
KEEP_VERSIONS = "to keep versions for longer, raise `history` (default: 1 hour) under `maintenance:`, of the pipeline or of one table under `tables:`"
#: Fix for a version that a table format does not find.
OTHER_VERSION = f"take a version from `headrace show FILE TABLE --versions`, or a later time; {KEEP_VERSIONS}"


def expired_version(as_of: str, oldest: str | None, where: str, more: str = "") -> ConfigError:
    """Return the error for a version that is older than the oldest readable one. ``more``: end of the fix."""
    return ConfigError(
        f"the table has no version as old as {as_of!r}; its oldest version is {oldest}",
        where=where,
        fix=f"use a later time; {KEEP_VERSIONS}{more}",
    )


def to_millis(spark: SparkSession, timestamp: str) -> int:
    """Parse a timestamp to milliseconds since 1970; ConfigError for anything else."""
    from pyspark.sql import functions as F

    row = spark.range(1).select(F.unix_millis(F.try_to_timestamp(F.lit(timestamp))).alias("ms")).first()
    if row is None or row["ms"] is None:
        raise ConfigError(
            f"{timestamp!r} is neither a version nor a timestamp",
            fix='write it like "2015-07-17 12:00:00", or name a version of the table: `headrace show FILE TABLE --versions` lists them',
        )
    return int(row["ms"])


def to_utc_text(millis: int) -> str:
    """Return milliseconds since 1970 as a timestamp that Spark reads the same in every time zone."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
