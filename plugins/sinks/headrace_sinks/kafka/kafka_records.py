"""Rows as records in the columns of Spark's Kafka writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.sdk import Table, changes as C
from headrace.sdk.changes import DELETED, KEY, POSITION
from headrace.sdk.columns import quote_name
from headrace_sinks.kafka.connect_json import encode_json
from headrace_sinks.kafka.kafka_sink_config import KafkaSinkConfig
from headrace_sinks.kafka.registered_avro import RegisteredAvro

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

#: Order of the records of a key: as the source's partition has them, then as a transform made them of one record.
_ORDER = (C.PARTITION, C.OFFSET, POSITION)


@dataclass(frozen=True)
class RecordEncoder:
    """Encoder of the keys and values of a topic."""

    topic: str
    config: KafkaSinkConfig
    avro: RegisteredAvro

    def encode(self, part: Literal["key", "value"], struct: Column, data_type: StructType) -> Column:
        """Encode a struct; null stays null."""
        is_key = part == "key"
        if (self.config.keys_format if is_key else self.config.value_format) == "avro":
            return self.avro.encode(struct, data_type, self.topic, part)
        has_schema = self.config.key_schemas_enable if is_key else self.config.value_schemas_enable
        return encode_json(struct, data_type, f"{self.topic}.{part.capitalize()}" if has_schema else None)


def list_columns(config: KafkaSinkConfig) -> list[str]:
    """List the record columns that the sink requires."""
    columns = [C.PARTITION, C.OFFSET, C.TOMBSTONE, C.RAW_KEY if config.keys_format == "bytes" else KEY]
    return [*columns, C.HEADERS] if config.includeHeaders else columns


def make_records(rows: DataFrame, table: Table, encoder: RecordEncoder) -> DataFrame:
    """Convert rows to records. Those of a key are in one partition of the result, in order."""
    from pyspark.sql import functions as F

    config = encoder.config
    if config.null_values == "ignore" and C.TOMBSTONE in rows.columns:
        rows = rows.where(~F.col(C.TOMBSTONE))
    key, order = _encode_key(rows, table, encoder), [name for name in _ORDER if name in rows.columns]
    headers = [F.col(C.HEADERS).alias("headers")] if C.HEADERS in rows.columns and config.includeHeaders else []
    records = rows.select(key.alias("key"), _encode_value(rows, encoder).alias("value"), *headers, *order)
    # Kafka gives records without a key no order. All in one task would be slow.
    spread = F.coalesce(F.col("key").cast("binary"), F.col(order[0]).cast("string").cast("binary"))
    return records.repartition(spread).sortWithinPartitions(*order).drop(*order)


def _encode_key(rows: DataFrame, table: Table, encoder: RecordEncoder) -> Column:
    """Build the key; null for records without one."""
    from pyspark.sql import functions as F, types as T

    if encoder.config.keys_format == "bytes":
        return F.col(C.RAW_KEY) if C.RAW_KEY in rows.columns else F.lit(None).cast("binary")
    if KEY in rows.columns:
        key = F.col(KEY)
    elif table.key:  # rows that have no records, such as those of a view
        key = F.struct(*[F.col(quote_name(name)) for name in table.key])
    else:
        return F.lit(None).cast("string")
    key_type = rows.select(key.alias(KEY)).schema[KEY].dataType
    assert isinstance(key_type, T.StructType), "a key has columns"
    return encoder.encode("key", key, key_type)


def _encode_value(rows: DataFrame, encoder: RecordEncoder) -> Column:
    """Build the value; null for deletes and tombstones."""
    from pyspark.sql import functions as F, types as T

    others = {POSITION, DELETED, *list_columns(encoder.config)}
    fields = [field for field in rows.schema if field.name not in others]
    if not fields:  # a batch of tombstones
        return F.lit(None).cast("string")
    row = F.struct(*[F.col(quote_name(field.name)) for field in fields])
    is_removed = F.coalesce(F.col(DELETED), F.lit(False))
    if C.TOMBSTONE in rows.columns:
        is_removed |= F.col(C.TOMBSTONE)
    return F.when(~is_removed, encoder.encode("value", row, T.StructType(fields)))
