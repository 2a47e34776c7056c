"""Options of the source ``kafka``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.sdk import Auth, Config
from headrace_sources.transports.kafka_admin import Offsets

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
#: Options that ``auth`` sets.
_LOGIN_OPTIONS = (
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.sasl.client.callback.handler.class",
    "kafka.sasl.login.callback.handler.class",
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
    "client.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    *(f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "password", "type")),
    "ssl.key.password",
    "isolation.level",
    "fetch.max.wait.ms",
    "max.poll.records",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
    "session.timeout.ms",
)
_EXPLAINED = {
    **{
        name: (f"Spark's name of Kafka's option `{name}` is `kafka.{name}`", f"write `kafka.{name}:`")
        for name in _CONSUMER_OPTIONS
    },
    **{
        name: (f"Spark does not use `{name}`: the checkpoint holds the offsets", "write `startingOffsets:`")
        for name in ("auto.offset.reset", "kafka.auto.offset.reset")
    },
    "schema.registry.url": (
        "the schema registry is an option of the format",
        "write `value: {avro: {registry: …}}` next to `kafka:`",
    ),
    **dict.fromkeys(
        ("topics", "topic"), ("Spark's name of this option is `subscribe`", "write `subscribe:` with names of topics")
    ),
    "topics.regex": ("Spark's name of this option is `subscribePattern`", "write `subscribePattern:`"),
    "kafka.bootstrap.servers": ("the brokers have an option without a prefix", "write `bootstrap.servers:`"),
}
#: Options that Spark reads as numbers.
_NUMBERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions")
#: Similarity from which an unknown option is a misspelled one. Different options are less similar.
_MISSPELLED = 0.9


class KafkaConfig(Config):
    """Kafka topics. Options of Spark's Kafka source and of Kafka's consumer (``kafka.*``) go next to these."""

    explained: ClassVar[Mapping[str, tuple[str, str]]] = _EXPLAINED
    passthrough: ClassVar[tuple[str, ...]] = (*STREAM_OPTIONS, *READER_OPTIONS, "kafka.*")

    bootstrap_servers: str | list[str] | None = Field(None, alias="bootstrap.servers", min_length=1)
    """Bootstrap brokers: ``host:port``, comma separated or as a list. Required, unless ``auth`` finds them."""

    auth: Auth = None
    """Authentication by a plugin: ``{msk-iam: {…}}``. Without it, the options of Kafka's client apply."""

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

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        if key in _NUMBERS and not (str(value).isascii() and str(value).isdigit() and int(value)):
            return f"`{key}` is not a whole number above 0", "write digits only"
        known = [f"kafka.{name}" for name in ("bootstrap.servers", *_CONSUMER_OPTIONS)]
        is_known = not str(key).startswith("kafka.") or key in known or key in cls.explained
        # Kafka's client ignores unknown options.
        close = [] if is_known else get_close_matches(key, known, n=1, cutoff=_MISSPELLED)
        if close:
            written = close[0].removeprefix("kafka.") if close[0] in cls.explained else close[0]
            return f"Kafka has no option `{key}`", f"did you mean `{written}`?"
        return super().explain_key(key, value)

    @model_validator(mode="after")
    def _one_login(self) -> KafkaConfig:
        if not self.bootstrap_servers and not (self.auth and self.auth.finds_brokers):
            raise ValueError("needs `bootstrap.servers`: host:port of one broker or more")
        if self.auth and (named := [key for key in self.options() if key in _LOGIN_OPTIONS]):
            raise ValueError(f"has `auth` and {', '.join(named)}, which `auth` sets: remove one of them")
        return self

    @model_validator(mode="after")
    def _one_topic_option(self) -> KafkaConfig:
        named = [name for name in TOPIC_OPTIONS if getattr(self, name)]
        if len(named) != 1:
            raise ValueError(f"needs one of {', '.join(TOPIC_OPTIONS)}, and has {' and '.join(named) or 'none'}")
        return self
