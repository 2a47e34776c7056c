"""Dates and timestamps of Connect and Debezium, from counts and strings.

Java and Spark use the same calendar, so that years before 1582 and BC need no rebasing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column

#: headrace's names of a Spark date and timestamp in JSON. Their parameters are options of Spark's JSON reader.
JSON_DATE, JSON_TIMESTAMP = "a date of JSON", "a timestamp of JSON"
#: Table values of PostgreSQL's infinity, which compare in every query engine as infinity does. Query engines support the years
#: 1 to 9999.
_LAST, _FIRST = "9999-12-31 00:00:00", "0001-01-01 00:00:00"
#: Infinity and negative infinity as Debezium sends them: the driver's count in any unit, the same in milliseconds, and its
#: remainder in 64 bits of nanoseconds.
_DRIVER_COUNT = 9223372036825200000, -9223372036832400000
_INFINITE_MILLIS = (9223372036825200, _DRIVER_COUNT[0]), (-9223372036832400, _DRIVER_COUNT[1])
_INFINITE_MICROS = (_DRIVER_COUNT[0],), (_DRIVER_COUNT[1],)
_INFINITE_NANOS = (2**63 - 1,), (-(2**63),)
#: Streaming and snapshots send different numbers for infinite dates. Both have overflowed 32 bits.
_INFINITE_DAYS = (-2147472692, -622191234), (-2147472691, -625821272)
_INFINITE_DAY_TEXTS = ("-5877611-06-21Z", "+292278994-08-16Z"), ("-5877611-06-22Z", "+292269055-12-02Z")
_INFINITE_TEXTS = (
    ("infinity", "+294247-01-10T04:00:25.2Z", "+292278994-"),
    ("-infinity", "-290308-12-21T19:59:27.6Z", "-292275055-"),
)
#: Start of a timestamp with a date.
_HAS_DATE = r"^\s*[-+]?[0-9]{4,6}-"
#: Start of a date with all of its parts.
_IS_DATE = r"^\s*[-+]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
#: First and last day of any database, which are PostgreSQL's: 4714-11-24 BC and 5874897-12-31.
_FIRST_DAY, _LAST_DAY = -2440588, 2145042905

#: Numbers for infinity, and for negative infinity.
_Infinity = tuple[tuple[Any, ...], tuple[Any, ...]]


def date_from_days(days: Column) -> Column:
    """Convert days since 1970 to DATE; null for a day that no database supports."""
    from pyspark.sql import functions as F

    ordinary = F.when(days.between(_FIRST_DAY, _LAST_DAY), F.date_from_unix_date(days))
    last, first = _last_and_first("date")
    return F.coalesce(ordinary, F.when(days.isin(*_INFINITE_DAYS[0]), last).when(days.isin(*_INFINITE_DAYS[1]), first))


def date_from_text(text: Column) -> Column:
    """Convert an ISO date with a ``Z`` to DATE; null if it is invalid."""
    from pyspark.sql import functions as F

    is_infinity, is_opposite = (text.isin(*texts) for texts in _INFINITE_DAY_TEXTS)
    last, first = _last_and_first("date")
    return F.when(is_infinity, last).when(is_opposite, first).otherwise(F.substring_index(text, "Z", 1).cast("date"))


def timestamp_from_millis(millis: Column) -> Column:
    """Convert milliseconds since 1970 to TIMESTAMP_NTZ; null beyond 64 bits of microseconds."""
    return _timestamp_from_count(millis, 1000, _INFINITE_MILLIS)


def timestamp_from_micros(micros: Column) -> Column:
    """Convert microseconds since 1970 to TIMESTAMP_NTZ."""
    return _timestamp_from_count(micros, 1, _INFINITE_MICROS)


def timestamp_from_nanos(nanos: Column) -> Column:
    """Convert nanoseconds since 1970 to TIMESTAMP_NTZ, rounded down to microseconds."""
    from pyspark.sql import functions as F

    last, first = _last_and_first("timestamp_ntz")
    infinite = F.when(nanos == _INFINITE_NANOS[0][0], last).when(nanos == _INFINITE_NANOS[1][0], first)
    return F.coalesce(infinite, timestamp_from_micros(micros_from_nanos(nanos)))


def micros_from_nanos(nanos: Column) -> Column:
    """Convert nanoseconds to microseconds, rounded down."""
    from pyspark.sql import functions as F

    # `div` rounds towards zero.
    return F.call_function("div", nanos, F.lit(1000)) - F.when(nanos % 1000 < 0, 1).otherwise(0)


def timestamp_from_text(text: Column, type_name: str = "timestamp") -> Column:
    """Convert an ISO time to TIMESTAMP or TIMESTAMP_NTZ; null if it is invalid."""
    from pyspark.sql import functions as F

    # Before the cast: Spark supports years of up to six digits.
    is_infinity, is_opposite = (reduce(lambda a, b: a | b, map(text.startswith, texts)) for texts in _INFINITE_TEXTS)
    last, first = _last_and_first(type_name)
    # Spark casts a time without a date to a time of the current day.
    ordinary = F.when(text.rlike(_HAS_DATE), text.cast(type_name))
    return F.when(is_infinity, last).when(is_opposite, first).otherwise(ordinary)


def date_from_json(text: Column, options: Mapping[str, str]) -> Column:
    """Convert a JSON string to DATE; null if it is invalid.

    Spark also reads a year alone, and any other digits as days since 1970. Both are invalid without a ``dateFormat``.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DateType

    if "dateFormat" not in options:
        return F.when(text.rlike(_IS_DATE), text.cast("date"))
    strict = {**options, "enableDateTimeParsingFallback": "false"}
    return F.from_json(F.to_json(F.array(text)), ArrayType(DateType()), strict).getItem(0)


def timestamp_from_json(text: Column, options: Mapping[str, str]) -> Column:
    """Convert a JSON string to TIMESTAMP as Spark's JSON reader does; null if it is invalid.

    Spark reads any number as seconds, and a time without a date as a time of the current day. The unit and the day are unknown, so
    that both are invalid without a ``timestampFormat``.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, TimestampType

    parsed = F.from_json(F.to_json(F.array(text)), ArrayType(TimestampType()), dict(options)).getItem(0)
    return parsed if "timestampFormat" in options else F.when(text.rlike(_HAS_DATE), parsed)


def _timestamp_from_count(count: Column, unit_micros: int, infinity: _Infinity) -> Column:
    """Convert a count of units since 1970 to TIMESTAMP_NTZ; ``unit_micros``: microseconds per unit."""
    from pyspark.sql import functions as F

    # An interval times a number does not depend on the session's time zone, unlike a cast from TIMESTAMP.
    unit = F.expr(f"INTERVAL '{Decimal(unit_micros).scaleb(-6):f}' SECOND")
    timestamp = F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + unit * count
    if unit_micros > 1:  # a product above 64 bits would be an error
        most = (2**63 - 1) // unit_micros
        timestamp = F.when(count.between(-most, most), timestamp)
    last, first = _last_and_first("timestamp_ntz")
    return F.when(count.isin(*infinity[0]), last).when(count.isin(*infinity[1]), first).otherwise(timestamp)


def _last_and_first(type_name: str) -> tuple[Column, Column]:
    """Return the table values of negative infinity and infinity."""
    from pyspark.sql import functions as F

    if type_name == "date":
        return F.expr(f"DATE'{_LAST[:10]}'"), F.expr(f"DATE'{_FIRST[:10]}'")
    if type_name == "timestamp":
        return F.expr(f"TIMESTAMP'{_LAST} UTC'"), F.expr(f"TIMESTAMP'{_FIRST} UTC'")
    return F.expr(f"TIMESTAMP_NTZ'{_LAST}'"), F.expr(f"TIMESTAMP_NTZ'{_FIRST}'")
