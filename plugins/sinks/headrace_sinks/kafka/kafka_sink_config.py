"""Options of the sink ``kafka``, with the names of Spark, of Kafka's producer and of Kafka Connect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headrace_kafka.kafka_client import CLIENT_OPTIONS, EXPLAINED_BROKERS, KafkaClientConfig, explain_prefix
from headrace_sinks.kafka.registered_avro import RegisteredAvroOptions
from headrace_sinks.name_template import NAME, NameTemplate
from headrace_sinks.placeholders import PlaceholderOptions

#: Options of Kafka's producer that users write without Spark's prefix.
_PRODUCER_OPTIONS = (
    *CLIENT_OPTIONS,
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.type",
    "delivery.timeout.ms",
    "linger.ms",
    "max.block.ms",
    "max.request.size",
)
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
NO_TOPIC_NAME = "is not a valid name of a topic, which has up to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
_NO_TRANSACTIONS = ("Spark's writer has no transactions", "remove the option: records are written at least once")
_BYTES = ("Spark's writer sends bytes", "remove the option: `keys.format` and the converters' options set the format")
#: Option → its values that keep the order of a key's records and lose none, and the reason.
_REQUIRED = {
    "kafka.acks": (("all", "-1"), "a broker may lose records that only it has"),
    "kafka.enable.idempotence": (("true",), "a repeated request would change the order of records"),
}


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have a name."""
    return _TOPIC_NAME.fullmatch(name) is not None


class KafkaSinkConfig(KafkaClientConfig, RegisteredAvroOptions, PlaceholderOptions):
    """Kafka topics. Options of Kafka's producer (``kafka.*``) go next to these."""

    known_options = _PRODUCER_OPTIONS
    explained: ClassVar[Mapping[str, tuple[str, str]]] = {
        **RegisteredAvroOptions.explained,
        **explain_prefix(_PRODUCER_OPTIONS),
        **EXPLAINED_BROKERS,
        **dict.fromkeys(("transactional.id", "kafka.transactional.id"), _NO_TRANSACTIONS),
        **dict.fromkeys((f"kafka.{part}.serializer" for part in ("key", "value")), _BYTES),
        "topics": ("a table has one topic", f"write `topic:`, such as `replica.{NAME}`"),
    }
    passthrough: ClassVar[tuple[str, ...]] = ("kafka.*",)

    topic: NameTemplate = Field(NAME, min_length=1)
    """Topic of a table. ``{name}`` is the whole name of the table: the name of the source's topic, unless ``tables:`` sets another."""

    keys_format: Literal["json", "avro", "bytes"] = Field("json", alias="keys.format")
    """Format of record keys. ``json``, ``avro``: the key columns after the transforms. ``bytes``: the key as it arrived."""

    value_format: Literal["json", "avro"] = Field("json", alias="value.format")
    """Format of record values."""

    key_schemas_enable: bool = Field(True, alias="key.converter.schemas.enable")
    """Whether keys in JSON contain their schema, as in Kafka Connect's JsonConverter."""

    value_schemas_enable: bool = Field(True, alias="value.converter.schemas.enable")
    """Whether values in JSON contain their schema, as in Kafka Connect's JsonConverter."""

    includeHeaders: bool = False  # noqa: N815 - Spark's name
    """Copy the headers of the records. Transforms do not change headers, so that masks require ``false``."""

    null_values: Literal["write", "ignore"] = Field("write", alias="behavior.on.null.values")
    """Tombstones of the source: written, or left out. A delete always becomes a tombstone."""

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, value: str) -> str:
        if not is_topic_name(value.replace(NAME, "t")):  # tables have names of at least one character
            raise ValueError(f"{value!r} {NO_TOPIC_NAME}")
        return value

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        if key in _REQUIRED:
            values, reason = _REQUIRED[key]
            if str(value).lower() not in values:
                return f"`{key}: {value}` is not supported: {reason}", "remove the option"
            return None
        return super().explain_key(key, value)

    @property
    def has_avro(self) -> bool:
        """Whether keys or values are Avro."""
        return "avro" in (self.keys_format, self.value_format)

    @model_validator(mode="after")
    def _check_registry(self) -> KafkaSinkConfig:
        if self.has_avro and not self.registry:
            raise ValueError("needs `registry:` for Avro, the address of the schema registry of the target")
        named = [
            field.alias or name
            for name, field in RegisteredAvroOptions.model_fields.items()
            if name in self.model_fields_set
        ]
        if named and not self.has_avro:
            raise ValueError(
                f"has {', '.join(named)} without Avro: write `value.format: avro`, or remove these options"
            )
        return self
