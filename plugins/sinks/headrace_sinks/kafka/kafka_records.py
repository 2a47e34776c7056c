"""Rows as records in the columns of Spark's Kafka writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import Table, changes as C
from headrace.sdk.changes import DELETED, KEY, POSITION
from headrace.sdk.columns import quote_name
from headrace_sinks.kafka.connect_json import encode_json
from headrace_sinks.kafka.kafka_sink_config import KafkaSinkConfig

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Order of the records of a key: as the source's partition has them, then as a transform made them of one record.
_ORDER = (C.PARTITION, C.OFFSET, POSITION)


def list_columns(config: KafkaSinkConfig) -> list[str]:
    """List the record columns that the sink requires."""
    columns = [C.PARTITION, C.OFFSET, C.TOMBSTONE, C.RAW_KEY if config.keys_format == "bytes" else KEY]
    return [*columns, C.HEADERS] if config.includeHeaders else columns


def make_records(rows: DataFrame, table: Table, topic: str, config: KafkaSinkConfig) -> DataFrame:
    """Convert rows to records. Those of a key are in one partition of the result, in order."""
    from pyspark.sql import functions as F

    if config.null_values == "ignore" and C.TOMBSTONE in rows.columns:
        rows = rows.where(~F.col(C.TOMBSTONE))
    key, order = _encode_key(rows, table, topic, config), [name for name in _ORDER if name in rows.columns]
    headers = [F.col(C.HEADERS).alias("headers")] if C.HEADERS in rows.columns and config.includeHeaders else []
    records = rows.select(key.alias("key"), _encode_value(rows, topic, config).alias("value"), *headers, *order)
    # Kafka gives records without a key no order. All in one task would be slow.
    spread = F.coalesce(F.col("key").cast("binary"), F.col(order[0]).cast("string").cast("binary"))
    return records.repartition(spread).sortWithinPartitions(*order).drop(*order)


def _encode_key(rows: DataFrame, table: Table, topic: str, config: KafkaSinkConfig) -> Column:
    """Build the key; null for records without one."""
    from pyspark.sql import functions as F

    if config.keys_format == "bytes":
        return F.col(C.RAW_KEY) if C.RAW_KEY in rows.columns else F.lit(None).cast("binary")
    if KEY in rows.columns:
        key = F.col(KEY)
    elif table.key:  # rows that have no records, such as those of a view
        key = F.struct(*[F.col(quote_name(name)) for name in table.key])
    else:
        return F.lit(None).cast("string")
    name = f"{topic}.Key" if config.key_schemas_enable else None
    return encode_json(key, rows.select(key.alias(KEY)).schema[KEY].dataType, name)


def _encode_value(rows: DataFrame, topic: str, config: KafkaSinkConfig) -> Column:
    """Build the value; null for deletes and tombstones."""
    from pyspark.sql import functions as F, types as T

    others = {POSITION, DELETED, *list_columns(config)}
    fields = [field for field in rows.schema if field.name not in others]
    if not fields:  # a batch of tombstones
        return F.lit(None).cast("string")
    row = F.struct(*[F.col(quote_name(field.name)) for field in fields])
    name = f"{topic}.Value" if config.value_schemas_enable else None
    is_removed = F.coalesce(F.col(DELETED), F.lit(False))
    if C.TOMBSTONE in rows.columns:
        is_removed |= F.col(C.TOMBSTONE)
    return F.when(~is_removed, encode_json(row, T.StructType(fields), name))
