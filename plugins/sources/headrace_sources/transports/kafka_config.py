"""Options of the source ``kafka``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace_kafka.kafka_admin import Offsets
from headrace_kafka.kafka_client import CLIENT_OPTIONS, EXPLAINED_BROKERS, KafkaClientConfig, explain_prefix

TOPIC_OPTIONS = ("subscribe", "subscribePattern", "assign")
#: Options that limit a batch and set the start of the first one. Only the stream has them.
STREAM_OPTIONS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
)
READER_OPTIONS = (
    "minPartitions",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)
#: Options of Kafka's consumer that users write without Spark's prefix.
_CONSUMER_OPTIONS = (
    "group.id",
    *CLIENT_OPTIONS,
    "isolation.level",
    "fetch.max.wait.ms",
    "max.poll.records",
    "max.partition.fetch.bytes",
    "session.timeout.ms",
)
_EXPLAINED = {
    **explain_prefix(_CONSUMER_OPTIONS),
    **{
        name: (f"Spark does not use `{name}`: the checkpoint holds the offsets", "write `startingOffsets:`")
        for name in ("auto.offset.reset", "kafka.auto.offset.reset")
    },
    **{
        name: (
            f"Spark does not use `{name}`: the checkpoint holds the offsets",
            "for monitors of lag, write `commit.group:`",
        )
        for name in ("enable.auto.commit", "kafka.enable.auto.commit")
    },
    "schema.registry.url": (
        "the schema registry is an option of the format",
        "write `value: {avro: {registry: …}}` next to `kafka:`",
    ),
    **dict.fromkeys(
        ("topics", "topic"), ("Spark's name of this option is `subscribe`", "write `subscribe:` with names of topics")
    ),
    "topics.regex": ("Spark's name of this option is `subscribePattern`", "write `subscribePattern:`"),
    **EXPLAINED_BROKERS,
}
#: Options that Spark reads as numbers.
_NUMBERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions")


class KafkaConfig(KafkaClientConfig):
    """Kafka topics. Options of Spark's Kafka source and of Kafka's consumer (``kafka.*``) go next to these."""

    known_options = _CONSUMER_OPTIONS
    explained: ClassVar[Mapping[str, tuple[str, str]]] = _EXPLAINED
    passthrough: ClassVar[tuple[str, ...]] = (*STREAM_OPTIONS, *READER_OPTIONS, "kafka.*")

    subscribe: str | list[str] | None = None
    """The topics: a name, comma separated names, or a list. Exactly one of ``subscribe``, ``subscribePattern`` and ``assign``.
    """

    subscribePattern: str | None = None  # noqa: N815 - Spark's name
    """A Java regular expression of topic names. Topics that are created later are included."""

    assign: dict[str, list[int]] | None = None
    """Partitions by topic: ``{orders: [0, 1]}``."""

    startingOffsets: Literal["earliest", "latest"] | Offsets = "earliest"  # noqa: N815 - Spark's name
    """Where a stream without a checkpoint starts: ``earliest``, ``latest``, or offsets by topic and partition."""

    failOnDataLoss: bool = True  # noqa: N815 - Spark's name
    """Stop if records were deleted before they were read. ``false``: continue with the oldest available records."""

    commit_group: str | None = Field(None, alias="commit.group", min_length=1)
    """Consumer group to which the offsets of each applied batch are committed, for monitors of lag. headrace never reads them: the
    checkpoint has its own. No consumer may be a member of the group.
    """

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        if key in _NUMBERS and not (str(value).isascii() and str(value).isdigit() and int(value)):
            return f"`{key}` is not a whole number above 0", "write digits only"
        return super().explain_key(key, value)

    @model_validator(mode="after")
    def _one_topic_option(self) -> KafkaConfig:
        named = [name for name in TOPIC_OPTIONS if getattr(self, name)]
        if len(named) != 1:
            raise ValueError(f"needs one of {', '.join(TOPIC_OPTIONS)}, and has {' and '.join(named) or 'none'}")
        return self
