"""Keys and values of a topic in the formats of the sink's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_sinks.change_records import Part, RecordFormat
from headrace_sinks.connect_json import encode_json
from headrace_sinks.kafka.kafka_sink_config import KafkaSinkConfig
from headrace_sinks.kafka.registered_avro import RegisteredAvro

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


def choose_format(topic: str, config: KafkaSinkConfig, avro: RegisteredAvro) -> RecordFormat:
    """Return the format of the records of a topic."""

    def encode(part: Part, struct: Column, data_type: StructType) -> Column:
        is_key = part == "key"
        if (config.keys_format if is_key else config.value_format) == "avro":
            return avro.encode(struct, data_type, topic, part)
        has_schema = config.key_schemas_enable if is_key else config.value_schemas_enable
        return encode_json(struct, data_type, f"{topic}.{part.capitalize()}" if has_schema else None)

    return RecordFormat(
        encode,
        config.placeholder,
        has_raw_keys=config.keys_format == "bytes",
        has_headers=config.includeHeaders,
        has_tombstones=config.null_values == "write",
    )
