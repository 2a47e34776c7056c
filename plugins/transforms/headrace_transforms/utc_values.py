"""Timestamps as wall clock times in UTC, independent of the session's time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_DAY = 86_400


def find_utc_date(instant: Column) -> Column:
    """Return the date of a timestamp in UTC."""
    from pyspark.sql import functions as F

    days = F.floor(F.unix_seconds(instant).cast("decimal(20,0)") / _DAY)
    return F.date_from_unix_date(days.cast("int"))


def find_utc_start(date: Column) -> Column:
    """Return the timestamp at which a date begins in UTC."""
    from pyspark.sql import functions as F

    return F.timestamp_micros(F.unix_date(date).cast("bigint") * (_DAY * 1_000_000))


def to_text(value: Column, kind: DataType) -> Column:
    """Return a value as Spark's string in a session in UTC, with all timestamps in it."""
    return _to_wall_clock(value, kind).cast("string")


def _to_wall_clock(value: Column, kind: DataType) -> Column:
    """Return a value whose timestamps are wall clock times in UTC, without a zone."""
    from pyspark.sql import functions as F, types as T

    if "timestamp" not in kind.simpleString():
        return value
    if isinstance(kind, T.TimestampType):
        # A cast would use the session's time zone, which repeats an hour at the end of summer time.
        seconds = F.pmod(F.unix_micros(value), F.lit(_DAY * 1_000_000)).cast("decimal(18,6)") / 1_000_000
        time = F.make_dt_interval(secs=seconds.cast("decimal(18,6)"))
        return find_utc_date(value).cast("timestamp_ntz") + time
    if isinstance(kind, T.ArrayType):
        items = kind.elementType
        return F.transform(value, lambda item: _to_wall_clock(item, items))
    if isinstance(kind, T.MapType):
        keys, values = kind.keyType, kind.valueType
        clocks = F.transform_values(value, lambda _, item: _to_wall_clock(item, values))
        return F.transform_keys(clocks, lambda key, _: _to_wall_clock(key, keys))
    if isinstance(kind, T.StructType):
        cells = [_to_wall_clock(value.getField(f.name), f.dataType).alias(f.name) for f in kind]
        return F.when(value.isNotNull(), F.struct(*cells))
    return value
