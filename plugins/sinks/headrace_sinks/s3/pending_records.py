"""Pending records: a batch's rows in Parquet, with the columns that decide about their objects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.sdk import DataError, changes as C
from headrace.sdk.changes import KEY, POSITION
from headrace.sdk.columns import fold_name, quote_name
from headrace.sdk.options import did_you_mean
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

TOPIC, PARTITION, OFFSET, ORDER = "topic", "partition", "offset", "position"
TIME, ENCODED, TOMBSTONE = "time", "encoded", "tombstone"
VALUE, RECORD_KEY, HEADERS = "value", "key", "headers"
#: Option of Spark's JSON functions, which accept another time zone than the session's.
_IN_UTC = {"timeZone": "UTC"}
#: Percent sign that readers of a path would decode with the next two digits.
_CODE = "%(?=[0-9A-Fa-f]{2})"
#: Replacement character, which Java reads for invalid bytes.
_INVALID = "\ufffd"
_LOCATION = (C.TOPIC, C.PARTITION, C.OFFSET)
#: Largest timestamp, which Spark stores in microseconds.
_MAX_MILLIS = 9_200_000_000_000_000
#: Marks around the message of a task that rejects a record.
REJECTION = ("<headrace-s3 ", " headrace-s3>")


def list_columns(config: S3SinkConfig) -> list[str]:
    """List the record columns that the sink requires."""
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
    """Convert rows for staging; DataError when they lack columns that the options require."""
    from pyspark.sql import functions as F

    for column in (C.TOPIC, C.PARTITION, C.OFFSET):
        if column not in rows.columns:
            raise DataError("the records have no offsets, which the names of objects require", fix="use another sink")
    is_tombstone = F.col(C.TOMBSTONE)
    if config.null_values == "ignore":
        rows = rows.where(~is_tombstone)
    elif config.null_values == "fail":
        rejection = _reject("has no value, and `behavior.on.null.values` is `fail`", "boolean", _LOCATION)
        is_tombstone = F.when(is_tombstone, rejection).otherwise(F.lit(False))
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
    """Return the schema that all records of an object share, and the columns of the rows as JSON."""
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
                "the records have no decoded key, and `store.kafka.keys` is set",
                fix="set the format of the keys with `key:` next to the source, or remove `store.kafka.keys`",
            )
        key = F.col(name)
        rejection = _reject("has no key, and `store.kafka.keys` is set", rows.schema[name].dataType, _LOCATION)
        columns.append(F.when(key.isNull(), rejection).otherwise(key).alias(RECORD_KEY))
    if config.store_headers:
        if C.HEADERS not in rows.columns:
            raise DataError(
                "the source has no headers, and `store.kafka.headers` is set", fix="remove `store.kafka.headers`"
            )
        texts = F.transform(
            C.HEADERS,
            lambda header: F.struct(header["key"].alias("key"), header["value"].cast("string").alias("value")),
        )
        columns.append(F.coalesce(texts, F.array().cast("array<struct<key: string, value: string>>")).alias(HEADERS))
    return columns


def _time(records: DataFrame, config: S3SinkConfig) -> Column:
    """Build the timestamp that partitions a record, in milliseconds since 1970; null if unused, and for tombstones without one."""
    from pyspark.sql import functions as F

    if not config.needs_time:
        return F.lit(None).cast("bigint")
    if config.timestamp_extractor == "Wallclock":
        return F.lit(round(time.time() * 1000))
    if config.timestamp_extractor == "RecordField":
        millis = _read_millis(records, config.timestamp_field)
        missing = f"has no timestamp in `timestamp.field` {config.timestamp_field}"
    elif TIME not in records.columns:
        raise DataError(
            "the source has no record timestamps, and `timestamp.extractor` is `Record`",
            fix="use `Wallclock`, or `RecordField` with a column",
        )
    else:
        millis, missing = F.col(TIME), "has no timestamp, and `timestamp.extractor` is `Record`"
    is_missing, is_out_of_range = millis.isNull() & ~F.col(TOMBSTONE), F.abs(millis) > _MAX_MILLIS
    too_large = "has a timestamp that is out of range: numbers must be milliseconds since 1970"
    return (
        F.when(is_missing, _reject(missing, "bigint"))
        .when(is_out_of_range, _reject(too_large, "bigint"))
        .otherwise(millis)
    )


def _read_millis(records: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F, types as T

    column, data_type = find_field(records.schema[VALUE].dataType, name, "timestamp.field", F.col(VALUE))
    if isinstance(data_type, T.NumericType):
        return column.cast("bigint")
    if isinstance(data_type, T.TimestampType):
        return F.unix_millis(column)
    if isinstance(data_type, T.StringType | T.DateType | T.TimestampNTZType):
        # Their casts to timestamps depend on the time zone of the session. Their strings do not.
        text = F.to_json(F.struct(column.cast("string").alias(TIME)))
        return F.unix_millis(F.from_json(text, f"{TIME} timestamp", _IN_UTC).getField(TIME))
    raise DataError(
        f"`timestamp.field` {name} has type {data_type.simpleString()}, which is not a timestamp",
        fix="name a column of numbers (milliseconds), timestamps, dates or strings",
    )


def _encode_partition(records: DataFrame, config: S3SinkConfig) -> Column:
    """Build the partition in the path of an object."""
    from pyspark.sql import functions as F

    if config.path_pattern is not None:
        pattern, duration = config.path_pattern
        local = F.unix_millis(F.from_utc_timestamp(F.timestamp_millis(F.col(TIME)), config.timezone))
        wall = F.timestamp_millis(F.floor(local / F.lit(duration)).cast("bigint") * F.lit(duration))
        encoded = _format_in_utc(wall, pattern)
    elif config.partition_field_name:
        row, value = records.schema[VALUE].dataType, F.col(VALUE)
        fields = {name: find_field(row, name, "partition.field.name", value) for name in config.partition_field_name}
        encoded = F.concat_ws("/", *[encode_value(name, *field, config) for name, field in fields.items()])
    else:
        encoded = F.concat(F.lit("partition="), F.col(PARTITION).cast("string"))
    return F.when(F.col(TOMBSTONE), F.lit(config.tombstone_partition)).otherwise(encoded)


def encode_value(name: str, column: Column, data_type: DataType, config: S3SinkConfig) -> Column:
    """Build the folder of a column's value. Timestamps are converted to the sink's time zone, not to the session's."""
    from pyspark.sql import functions as F

    text = column.cast("string")
    if data_type.typeName() == "timestamp":
        digits = _format_in_utc(F.from_utc_timestamp(column, config.timezone), "yyyy-MM-dd HH:mm:ss.SSSSSS")
        text = F.regexp_replace(digits, r"\.?0+$", "")
    # A slash in a value would start a folder. Readers decode `%2F`, also where it is part of a value.
    encoded = F.regexp_replace(F.regexp_replace(text, _CODE, "%25"), "/", "%2F")
    # The name of a folder is valid UTF-8. Spark writes a string that it has changed without its invalid bytes.
    encoded = F.regexp_replace(encoded, _INVALID, _INVALID)
    return F.concat(F.lit(f"{name}="), F.coalesce(encoded, F.lit("null")))


def _format_in_utc(timestamp: Column, pattern: str) -> Column:
    """Format a timestamp in UTC. ``date_format`` uses the session's time zone, in which an hour may not exist."""
    from pyspark.sql import functions as F

    text = F.to_json(F.struct(timestamp.alias(TIME)), {**_IN_UTC, "timestampFormat": pattern})
    return F.get_json_object(text, f"$.{TIME}")


def find_field(row: DataType, name: str, option: str, struct: Column | None = None) -> tuple[Column, DataType]:
    """Find a column of a row, or a nested field, and its type; DataError when it does not exist. ``struct``: the column of the row."""
    from pyspark.sql import functions as F

    column, data_type, rest = struct, row, name
    while rest:
        names: list[str] = getattr(data_type, "names", [])
        spellings = {fold_name(known): known for known in names} | {known: known for known in names}
        first = rest if rest in spellings or fold_name(rest) in spellings else rest.partition(".")[0]
        spelling = spellings.get(first) or spellings.get(fold_name(first))
        if spelling is None:
            raise DataError(f"`{option}` names the unknown column {name!r}", fix=did_you_mean(first, names))
        column = F.col(quote_name(spelling)) if column is None else column.getField(spelling)
        data_type = data_type[spelling].dataType  # type: ignore[index]
        rest = rest[len(first) + 1 :]
    assert column is not None, "a name is not empty"
    return column, data_type


def _reject(reason: str, data_type: DataType | str, location: Sequence[str] = (TOPIC, PARTITION, OFFSET)) -> Column:
    """Build a column that fails the task of a record. ``location``: the columns of the record's offset."""
    from pyspark.sql import functions as F

    where = F.format_string("topic %s, partition %d, offset %d: the record ", *location)
    return F.raise_error(F.concat(F.lit(REJECTION[0]), where, F.lit(f"{reason}{REJECTION[1]}"))).cast(data_type)
