"""A batch's rows as they wait for their objects: in Parquet, with what decides about objects beside each row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.sdk import DataError, changes as C
from headrace.sdk.changes import KEY, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.options import did_you_mean
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

TOPIC, PARTITION, OFFSET, ORDER = "topic", "partition", "offset", "position"
TIME, ENCODED, TOMBSTONE = "time", "encoded", "tombstone"
VALUE, RECORD_KEY, HEADERS = "value", "key", "headers"
_PLACE = (C.TOPIC, C.PARTITION, C.OFFSET)
#: What a task says that meets a record for which there can be no object stands between these.
REFUSAL = ("<headrace-s3 ", " headrace-s3>")


def list_columns(config: S3SinkConfig) -> list[str]:
    """What the sink wants to know of the record that a row is from."""
    columns = [C.TOPIC, C.PARTITION, C.OFFSET, C.TOMBSTONE]
    if config.needs_time and config.timestamp_extractor == "Record":
        columns.append(C.TIMESTAMP)
    if config.format == "bytes":
        columns.append(C.RAW)
    if config.store_keys:
        columns.append(C.RAW_KEY if config.keys_format == "bytes" else KEY)
    if config.store_headers:
        columns.append(C.HEADERS)
    return columns


def describe_records(rows: DataFrame, config: S3SinkConfig) -> DataFrame:
    """The rows as they are staged. DataError where they lack what the options need."""
    from pyspark.sql import functions as F

    for column in (C.TOPIC, C.PARTITION, C.OFFSET):
        if column not in rows.columns:
            raise DataError("its records have no offsets, by which objects are named", fix="use another sink")
    is_tombstone = F.col(C.TOMBSTONE)
    if config.null_values == "ignore":
        rows = rows.where(~is_tombstone)
    elif config.null_values == "fail":
        refusal = _refuse("has no value, and `behavior.on.null.values` is `fail`", "boolean", _PLACE)
        is_tombstone = F.when(is_tombstone, refusal).otherwise(F.lit(False))
    records = rows.select(
        F.col(C.TOPIC).alias(TOPIC),
        F.col(C.PARTITION).alias(PARTITION),
        F.col(C.OFFSET).alias(OFFSET),
        F.col(POSITION).alias(ORDER),
        is_tombstone.alias(TOMBSTONE),
        _value(rows, config).alias(VALUE),
        *_key_and_headers(rows, config),
        *([F.unix_millis(C.TIMESTAMP).alias(TIME)] if C.TIMESTAMP in rows.columns else []),
    )
    records = records.withColumn(TIME, _time(records, config))
    return records.withColumn(ENCODED, _encode_partition(records, config))


def describe_schema(records: DataFrame) -> tuple[str, str]:
    """What has to be the same in all records of an object; and the rows' columns, as JSON."""
    text = ", ".join(f.simpleString() for f in records.schema if f.name in (VALUE, RECORD_KEY, HEADERS))
    return text, records.schema[VALUE].dataType.json()


def _value(rows: DataFrame, config: S3SinkConfig) -> Column:
    from pyspark.sql import functions as F

    if config.format == "bytes":
        return F.col(C.RAW)
    others = {POSITION, C.DELETED, *list_columns(config)}
    return F.struct(*[F.col(quote_name(name)) for name in rows.columns if name not in others])


def _key_and_headers(rows: DataFrame, config: S3SinkConfig) -> list[Column]:
    from pyspark.sql import functions as F

    columns = []
    if config.store_keys:
        name = C.RAW_KEY if config.keys_format == "bytes" else KEY
        if name not in rows.columns:
            raise DataError(
                "its records have no key that was read, and `store.kafka.keys` is set",
                fix="name the keys' format with `key:` beside the source, or leave out `store.kafka.keys`",
            )
        key = F.col(name)
        refusal = _refuse("has no key, and `store.kafka.keys` is set", rows.schema[name].dataType, _PLACE)
        columns.append(F.when(key.isNull(), refusal).otherwise(key).alias(RECORD_KEY))
    if config.store_headers:
        if C.HEADERS not in rows.columns:
            raise DataError(
                "its source gives no headers, and `store.kafka.headers` is set", fix="leave out `store.kafka.headers`"
            )
        texts = F.transform(
            C.HEADERS, lambda one: F.struct(one["key"].alias("key"), one["value"].cast("string").alias("value"))
        )
        columns.append(F.coalesce(texts, F.array().cast("array<struct<key: string, value: string>>")).alias(HEADERS))
    return columns


def _time(records: DataFrame, config: S3SinkConfig) -> Column:
    """Milliseconds since 1970 by which a record is placed; null where nothing is placed so, and for a tombstone without one."""
    from pyspark.sql import functions as F

    if not config.needs_time:
        return F.lit(None).cast("bigint")
    if config.timestamp_extractor == "Wallclock":
        return F.lit(round(time.time() * 1000))
    if config.timestamp_extractor == "RecordField":
        millis = _read_millis(records, config.timestamp_field)
        missing = f"has no time in `timestamp.field` {config.timestamp_field}"
    elif TIME not in records.columns:
        raise DataError(
            "its source gives records no times, and `timestamp.extractor` is `Record`",
            fix="take `Wallclock`, or `RecordField` with a column",
        )
    else:
        millis, missing = F.col(TIME), "has no time of its own, and `timestamp.extractor` is `Record`"
    return F.when(millis.isNull() & ~F.col(TOMBSTONE), _refuse(missing, "bigint")).otherwise(millis)


def _read_millis(records: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F, types as T

    column, data_type = _find_field(records, name, "timestamp.field")
    if isinstance(data_type, T.NumericType):
        return column.cast("bigint")
    if isinstance(data_type, T.StringType):
        return F.unix_millis(F.try_to_timestamp(column))
    if isinstance(data_type, T.DateType | T.TimestampType | T.TimestampNTZType):
        return F.unix_millis(column.cast("timestamp"))
    raise DataError(
        f"`timestamp.field` {name} is {data_type.simpleString()}, which is no time",
        fix="name a column of numbers (milliseconds), timestamps, dates or texts",
    )


def _encode_partition(records: DataFrame, config: S3SinkConfig) -> Column:
    """The part of an object's path that says which partition it is of."""
    from pyspark.sql import functions as F

    if config.path_pattern is not None:
        pattern, duration = config.path_pattern
        local = F.unix_millis(F.from_utc_timestamp(F.timestamp_millis(F.col(TIME)), config.timezone))
        wall = F.timestamp_millis(F.floor(local / F.lit(duration)).cast("bigint") * F.lit(duration))
        # Whatever the session's time zone is: what is to be seen are the digits of that wall clock.
        encoded = F.date_format(F.to_utc_timestamp(wall, F.current_timezone()), pattern)
    elif config.partition_field_name:
        fields = [(name, _find_field(records, name, "partition.field.name")[0]) for name in config.partition_field_name]
        # A slash in a value would be a folder.
        texts = [F.coalesce(F.regexp_replace(f.cast("string"), "/", "%2F"), F.lit("null")) for _, f in fields]
        parts = [F.concat(F.lit(f"{name}="), text) for (name, _), text in zip(fields, texts, strict=True)]
        encoded = F.concat_ws("/", *parts)
    else:
        encoded = F.concat(F.lit("partition="), F.col(PARTITION).cast("string"))
    return F.when(F.col(TOMBSTONE), F.lit(config.tombstone_partition)).otherwise(encoded)


def _find_field(records: DataFrame, name: str, option: str) -> tuple[Column, DataType]:
    """A column of the row, or a field inside one, and its type. DataError where there is none."""
    from pyspark.sql import functions as F

    column, data_type, rest = F.col(VALUE), records.schema[VALUE].dataType, name
    while rest:
        names: list[str] = getattr(data_type, "names", [])
        first = rest if rest in names else rest.partition(".")[0]
        if first not in names:
            raise DataError(f"there is no column {name!r}, which `{option}` names", fix=did_you_mean(first, names))
        column, data_type = column.getField(first), data_type[first].dataType  # type: ignore[index]
        rest = rest[len(first) + 1 :]
    return column, data_type


def _refuse(why: str, data_type: DataType | str, place: Sequence[str] = (TOPIC, PARTITION, OFFSET)) -> Column:
    """A value that nobody gets: it fails the task that meets the record. ``place``: the columns that say which that is."""
    from pyspark.sql import functions as F

    where = F.format_string("topic %s, partition %d, offset %d: the record ", *place)
    return F.raise_error(F.concat(F.lit(REFUSAL[0]), where, F.lit(f"{why}{REFUSAL[1]}"))).cast(data_type)
