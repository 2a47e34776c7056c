"""Conversion of points in time between strings, numbers and timestamps, with the options of Kafka Connect's TimestampConverter."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator, model_validator

from headrace.sdk import Changes, ConfigError, DataError, Transform, TransformConfig
from headrace.sdk.columns import quote_name
from headrace.sdk.rows import row_types
from headrace.sdk.transform import ColumnName
from headrace_transforms.row_images import compute_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

Precision = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]
#: Number → microseconds since 1970, or null if they do not fit: ``timestamp_millis`` would fail the task.
_TO_MICROS = {
    "seconds": "try_multiply({0}, 1000000L)",
    "milliseconds": "try_multiply({0}, 1000L)",
    "microseconds": "{0}",
    "nanoseconds": "CAST(floor({0} / 1000BD) AS BIGINT)",
}
#: Microseconds of the years 1 and 9999, Spark's range. Many query engines reject later years.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_TO_UNIX = {
    "seconds": "unix_seconds({0})",
    "milliseconds": "unix_millis({0})",
    "microseconds": "unix_micros({0})",
    "nanoseconds": "try_multiply(unix_micros({0}), 1000L)",
}
PATTERNS = "https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html"
_TEXT = re.compile(r"'[^']*'")
#: Letters of Java's SimpleDateFormat that Spark's patterns lack, and those with which Spark writes strings, but does not read them.
_UNSUPPORTED, _WRITE_ONLY = re.compile(r"[YWwuecABnNp]"), re.compile(r"[EFqQ]")


class TimestampConfig(TransformConfig):
    """Options of Kafka Connect's TimestampConverter, under their original names. Times without a zone are in UTC."""

    column: ColumnName = Field(alias="field")
    """Column to convert: a string, a number, a date or a timestamp."""

    target_type: Literal["string", "unix", "Date", "Time", "Timestamp"] = Field(alias="target.type")
    """New type. ``unix`` is a number since 1970, ``Time`` the milliseconds since midnight."""

    pattern: str = Field("", alias="format")
    """Pattern of strings, such as ``yyyy-MM-dd HH:mm:ss``."""

    unix_precision: Precision = Field("milliseconds", alias="unix.precision")
    """Unit of numbers."""

    @field_validator("pattern")
    @classmethod
    def _has_known_letters(cls, value: str) -> str:
        if letter := _UNSUPPORTED.search(_TEXT.sub("", value)):
            advice = "write `yyyy`, the year" if letter[0] == "Y" else f"use the letters of {PATTERNS}"
            raise ValueError(f"has the letter {letter[0]!r}, which is no letter of Spark's patterns: {advice}")
        return value

    @model_validator(mode="after")
    def _has_pattern(self) -> TimestampConfig:
        if self.target_type == "string" and not self.pattern:
            raise ValueError("target.type string requires `format`")
        return self


class Timestamp(Transform):
    """``timestamp: {field: created, target.type: Timestamp, unix.precision: seconds}``."""

    name = "timestamp"
    api_version = 1
    Config = TimestampConfig
    config: TimestampConfig

    def reads(self) -> Collection[str]:
        return (self.config.column,)

    def check(self, spark: SparkSession | None = None) -> None:
        """Raise ConfigError for a pattern that Spark rejects."""
        from pyspark.errors import PySparkException

        super().check(spark)
        if spark is None or not self.config.pattern:
            return
        try:
            spark.sql(f"SELECT date_format(timestamp_seconds(0), {_quote(self.config.pattern)})").first()
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(f"`format` {self.config.pattern!r}: {reason}", fix=f"see {PATTERNS}") from None

    def apply(self, changes: Changes) -> Changes:
        types, texts, rejects = row_types(changes), dict[str, str](), dict[str, str]()
        for column in changes.find_columns([self.config.column]):
            quoted = quote_name(column)
            texts[column] = self._convert(self._read(column, types[column]))
            failure = f"the column `{column}` is not a point in time in the format of `timestamp`"
            rejects[failure] = f"{quoted} IS NOT NULL AND ({texts[column]}) IS NULL"
        return compute_columns(changes, texts, rejects) if texts else changes

    def _read(self, column: str, kind: DataType) -> str:
        """Return the point in time as a SQL expression. DataError for a column that is not one."""
        quoted, name = quote_name(column), kind.typeName()
        if name == "string" and self.config.pattern:
            if letter := _WRITE_ONLY.search(_TEXT.sub("", self.config.pattern)):
                raise DataError(
                    f"Spark reads no strings with the letter {letter[0]!r} of `format`", fix=f"see {PATTERNS}"
                )
            # Only JSON reads all texts: `try_to_timestamp` fails the task for the year 999999999.
            return f"from_json(to_json(struct({quoted} AS v)), 'v TIMESTAMP', {self._options()}).v"
        if name in ("integer", "long", "short"):
            micros = _TO_MICROS[self.config.unix_precision].format(f"CAST({quoted} AS BIGINT)")
            return f"CASE WHEN {micros} BETWEEN {_FIRST}L AND {_LAST}L THEN timestamp_micros({micros}) END"
        if name == "date":
            return f"timestamp_micros(try_multiply(CAST(unix_date({quoted}) AS BIGINT), 86400000000L))"
        if name == "timestamp_ntz":
            return f"TRY_CAST(concat(CAST({quoted} AS STRING), '+00:00') AS TIMESTAMP)"
        if name == "timestamp":
            return quoted
        fix = "set `format`" if name == "string" else "convert it with `cast` before, or with `compute`"
        raise DataError(f"the column {column!r} is {kind.simpleString()}, which is not a point in time", fix=fix)

    def _convert(self, instant: str) -> str:
        """Return a point in time as a value of the target type, as a SQL expression."""
        if self.config.target_type == "string":
            # Only JSON formats a timestamp in another time zone than the session's, which lacks an hour each spring.
            return f"from_json(to_json(struct({instant} AS v), {self._options()}), 'v STRING').v"
        if self.config.target_type == "unix":
            return _TO_UNIX[self.config.unix_precision].format(instant)
        if self.config.target_type == "Date":
            return f"date_from_unix_date(CAST(floor(unix_seconds({instant}) / 86400BD) AS INT))"
        return f"pmod(unix_millis({instant}), 86400000L)" if self.config.target_type == "Time" else instant

    def _options(self) -> str:
        return f"map('timestampFormat', {_quote(self.config.pattern)}, 'timeZone', 'UTC')"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
