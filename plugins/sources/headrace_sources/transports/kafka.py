"""Records of Kafka topics. Spark's own Kafka stream plans the offsets of a batch and keeps them.

The stream itself is never read: each topic of a batch is read by a query of its own over offsets, so that twenty tables of
twenty topics read each record once, and nothing has to be kept in memory in between. The stream says how many records a
batch has; which topics they are of is shared out fairly (``kafka_shares``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.sdk import Auth, Config, ConfigError, HeadraceError, NativeSource, Plugin, SourceContext
from headrace.sdk.error_text import full_text
from headrace.sdk.options import did_you_mean, option_text
from headrace.sdk.storage import Folder
from headrace_sources.transports.kafka_admin import KafkaAdmin, Offsets
from headrace_sources.transports.kafka_errors import explain_kafka_error
from headrace_sources.transports.kafka_offsets import (
    EARLIEST,
    Ranges,
    count_records,
    merge_ranges,
    pin_ranges,
)
from headrace_sources.transports.kafka_shares import FairShares

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOPIC_OPTIONS = ("subscribe", "subscribePattern", "assign")
#: Options that say how much a batch takes and where the first one starts: the stream's alone.
_STREAM_OPTIONS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
)
#: Records that a batch takes at most when the file says nothing: a backlog is applied, and seen, in parts that end.
MAX_RECORDS_PER_BATCH = 1_000_000
#: Newest records of each partition that `headrace check --connect` looks at.
SAMPLE_RECORDS = 10
#: Records of a topic that one task reads. Those of a large backlog are many tasks, between which other tables have their turn.
_RECORDS_PER_TASK = 50_000
#: What a batch reads is there. A broker that waits for more holds the connection up, and with it the batch's end. And
#: Spark asks for a partition's first and last offset after every poll, which is 500 records unless more are allowed; the
#: bytes of one are still limited by ``max.partition.fetch.bytes``.
_CONSUMER_DEFAULTS = {"kafka.fetch.max.wait.ms": "10", "kafka.max.poll.records": "10000"}
#: How often the cluster is asked before a stream starts, each time for as long as the admin client waits.
_MAX_ATTEMPTS = 3
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
#: What ``auth`` says, and nobody beside it.
_LOGIN_OPTIONS = (
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.sasl.client.callback.handler.class",
    "kafka.sasl.login.callback.handler.class",
)
_READER_OPTIONS = (
    "minPartitions",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)


class KafkaConfig(Config):
    """Kafka topics. Options of Spark's Kafka source and of Kafka's consumer (``kafka.*``) stand beside these."""

    passthrough: ClassVar[tuple[str, ...]] = (*_STREAM_OPTIONS, *_READER_OPTIONS, "kafka.*")

    bootstrap_servers: str | list[str] | None = Field(None, alias="bootstrap.servers", min_length=1)
    """The brokers to ask first: ``host:port``, with commas or as a list. Required, unless ``auth`` finds them."""

    auth: Auth = None
    """How to log in, where a plugin knows it: ``{msk-iam: {…}}``. Else the options of Kafka's client say it."""

    subscribe: str | list[str] | None = None
    """The topics: a name, names with commas, or a list. One of ``subscribe``, ``subscribePattern`` and ``assign``."""

    subscribePattern: str | None = None  # noqa: N815 - Spark's name
    """A Java regular expression of topic names; a topic that appears later joins by itself."""

    assign: dict[str, list[int]] | None = None
    """Partitions by topic: ``{orders: [0, 1]}``."""

    startingOffsets: Literal["earliest", "latest"] | Offsets = "earliest"  # noqa: N815 - Spark's name
    """Where a stream without a checkpoint starts: ``earliest``, ``latest``, or offsets by topic and partition."""

    failOnDataLoss: bool = True  # noqa: N815 - Spark's name
    """Stop when records are gone that were not read. ``false``: go on with the oldest there are."""

    @model_validator(mode="after")
    def _one_login(self) -> KafkaConfig:
        if not self.bootstrap_servers and not (self.auth and self.auth.finds_brokers):
            raise ValueError("needs `bootstrap.servers`: host:port of one broker or more")
        if self.auth and (named := [key for key in self.options() if key in _LOGIN_OPTIONS]):
            raise ValueError(f"has `auth` and {', '.join(named)}, which it sets: write either")
        return self

    @model_validator(mode="after")
    def _one_topic_option(self) -> KafkaConfig:
        named = [name for name in _TOPIC_OPTIONS if getattr(self, name)]
        if len(named) != 1:
            raise ValueError(f"needs one of {', '.join(_TOPIC_OPTIONS)}, and has {' and '.join(named) or 'none'}")
        return self


class KafkaSource(NativeSource):
    """``kafka: {bootstrap.servers: "broker:9092", subscribePattern: 'shop[.].*'}``."""

    name = "kafka"
    api_version = 1
    Config = KafkaConfig
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",),
        "4.0": ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",),
    }
    jvm_class = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
    _client: KafkaAdmin | None = None
    _shares: FairShares | None = None
    #: What is there before a stream that applies no more than that, and what was there before the one that is read.
    _available: Offsets | None = None
    _limits: Offsets | None = None

    def parts(self) -> Sequence[Plugin]:
        return [self.config.auth] if self.config.auth else []

    def session_conf(self) -> dict[str, str]:
        servers, auth = self.config.bootstrap_servers, self.config.auth
        properties = auth.java_properties(option_text(servers or "")) if auth else {}
        options = " ".join(f"-D{name}={value}" for name, value in properties.items())
        return dict.fromkeys(_JAVA_OPTIONS, options) if options else {}

    def check(self, spark: SparkSession | None = None) -> None:
        if self.config.auth and self.config.bootstrap_servers:  # else a service has to be asked for them
            self._client_options()

    def stream(self, spark: SparkSession) -> DataFrame:
        self._await_broker(spark)
        # Of the stream before nothing holds: its checkpoint may have begun anew, and its limits be old.
        self._shares, self._limits, self._available = None, self._available, None
        name, value = self._topic_option
        options = {
            "maxOffsetsPerTrigger": f"{MAX_RECORDS_PER_BATCH}",
            **self._options(_READER_OPTIONS + _STREAM_OPTIONS),
        }
        reader = spark.readStream.format("kafka").options(**options)
        reader = reader.option(name, option_text(value))
        reader = reader.option("startingOffsets", option_text(self.config.startingOffsets))
        return reader.load()

    def prepare_for_trigger_available_now(self, spark: SparkSession) -> None:
        self._await_broker(spark)
        try:
            partitions, _ = self._find_partitions(spark)
        except ConfigError:  # a topic is not there, or not for this login: the stream says why
            return
        self._available = self._admin(spark).latest(partitions)

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        if context.replay is not None:
            return {topic: partial(self._read_all, topic=topic, parts=parts) for topic, parts in context.replay.items()}
        ranges = self._ranges(context)
        return {topic: partial(self._read, topic=topic, offsets=offsets) for topic, offsets in ranges.items()}

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any]:
        found = self._ranges(context)
        ranges = {topic: found[topic] for topic in topics}
        new = {t: [p for p, (first, _) in parts.items() if first == EARLIEST] for t, parts in ranges.items()}
        new = {topic: partitions for topic, partitions in new.items() if partitions}
        earliest = self._admin(context.spark).earliest(new) if new else {}
        return {topic: pin_ranges(parts, earliest.get(topic, {})) for topic, parts in ranges.items()}

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        admin = self._admin(spark)
        cluster, brokers = admin.cluster()
        options = self._client_options()
        protocol, mechanism = options.get("security.protocol", "PLAINTEXT"), options.get("sasl.mechanism")
        how = f"{protocol}, {mechanism}: the login is accepted" if mechanism and "SASL" in protocol else protocol
        yield "source kafka", f"{self._servers}: cluster {cluster}, {brokers} broker{'s' * (brokers != 1)}, {how}"
        partitions, others = self._find_partitions(spark)
        first, last = admin.earliest(partitions), admin.latest(partitions)
        for topic, numbers in partitions.items():
            records = sum(last[topic][p] - first[topic][p] for p in numbers)
            yield f"topic {topic}", f"{len(numbers)} partition{'s' * (len(numbers) != 1)}, {records} records"
        if not partitions:
            visible = (
                f"the cluster has {', '.join(others[:10])}" if others else "the cluster shows no topic to this login"
            )
            yield "topics", f"none matches {self.config.subscribePattern}: the stream waits for one; {visible}"

    def sample_records(self, context: SourceContext) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        admin, (partitions, _) = self._admin(context.spark), self._find_partitions(context.spark)
        first, last = admin.earliest(partitions), admin.latest(partitions)
        samples = {}
        for topic in partitions:
            ranges = {
                p: (max(first[topic][p], end - SAMPLE_RECORDS), end)
                for p, end in last[topic].items()
                if end > first[topic][p]
            }
            if ranges:
                samples[topic] = partial(self._read, topic=topic, offsets=ranges)
        return samples

    def lag(self, context: SourceContext) -> Mapping[str, int]:
        assert context.stream is not None
        assert context.batch is not None
        shares = self._shares_of(context.spark, context.stream)
        of_all = shares.end(context.batch)
        end = {topic: of_all[topic] for topic in shares.ranges(context.batch)}  # who has nothing new is not asked about
        latest = self._admin(context.spark).latest(end)
        return {topic: sum(max(0, latest[topic][p] - end[topic][p]) for p in end[topic]) for topic in end}

    def offset_epoch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, str]:
        return self._admin(context.spark).describe_origins(topics)

    def explain(self, error: BaseException) -> HeadraceError | None:
        auth, (name, value) = self.config.auth, self._topic_option
        found: HeadraceError | None = auth.explain(error) if auth else None
        return found or explain_kafka_error(error, f"source kafka, {self._servers}, {name} {option_text(value)}")

    @property
    def _topic_option(self) -> tuple[str, Any]:
        """Which of the three options says which topics, and what it says."""
        name = next(name for name in _TOPIC_OPTIONS if getattr(self.config, name))
        return name, getattr(self.config, name)

    @cached_property
    def _servers(self) -> str:
        named, auth = self.config.bootstrap_servers, self.config.auth
        return auth.brokers() if auth and not named else option_text(named)

    def _client_options(self) -> dict[str, str]:
        """Options of Kafka's own clients, by Kafka's names: what ``auth`` says, and over it the file's."""
        own = {k.removeprefix("kafka."): v for k, v in self.config.options().items() if k.startswith("kafka.")}
        auth = self.config.auth.client_options(self._servers) if self.config.auth else {}
        # Records of a transaction that was given up never happened.
        return {"isolation.level": "read_committed", **auth, **own, "bootstrap.servers": self._servers}

    def _options(self, names: tuple[str, ...]) -> dict[str, str]:
        """What both the stream and the queries over its offsets are told."""
        return {
            **{k: v for k, v in self.config.options().items() if k in names},
            **{f"kafka.{k}": v for k, v in self._client_options().items()},
            "failOnDataLoss": option_text(self.config.failOnDataLoss),
            "includeHeaders": "true",
        }

    def _await_broker(self, spark: SparkSession) -> None:
        """Asks whether somebody is there; Spark's stream would take three minutes to say that nobody is."""
        for left in reversed(range(_MAX_ATTEMPTS)):
            try:
                self._admin(spark).cluster()
            except Exception as error:
                if not left or "TimeoutException" not in full_text(error):
                    raise
            else:
                return

    def _admin(self, spark: SparkSession) -> KafkaAdmin:
        """The one client of this source; it lives as long as the source does."""
        if self._client is None:
            self._client = KafkaAdmin(spark, self._client_options())
        return self._client

    def _find_partitions(self, spark: SparkSession) -> tuple[dict[str, list[str]], list[str]]:
        """The topics of this source that there are, with their partitions, and the names of the others."""
        admin, config = self._admin(spark), self.config
        names = admin.topics()
        if config.subscribePattern:
            pattern: Any = spark._jvm.java.util.regex.Pattern.compile(config.subscribePattern)  # type: ignore[union-attr]  # noqa: SLF001 - Kafka's client uses Java's
            wanted = [name for name in names if pattern.matcher(name).matches()]
        else:
            wanted = list(config.assign or option_text(config.subscribe).split(","))
            for name in wanted:
                if name not in names:
                    fix = did_you_mean(name, names)
                    raise ConfigError(f"there is no topic {name!r}", where=f"source kafka, {self._servers}", fix=fix)
        partitions = admin.partitions(wanted)
        if config.assign:
            partitions = {topic: [str(p) for p in numbers] for topic, numbers in config.assign.items()}
        return partitions, [name for name in names if name not in wanted]

    def _ranges(self, context: SourceContext) -> dict[str, Ranges]:
        """Topic → what the batch has of it."""
        assert context.stream is not None
        assert context.batch is not None
        return self._shares_of(context.spark, context.stream).ranges(context.batch)

    def _shares_of(self, spark: SparkSession, stream: Folder) -> FairShares:
        if self._shares is None:
            limit = int(self.config.options().get("maxOffsetsPerTrigger", MAX_RECORDS_PER_BATCH))
            self._shares = FairShares(stream, limit, partial(self._find_bounds, spark))
        return self._shares

    def _find_bounds(self, spark: SparkSession, planned: Offsets) -> Offsets:
        """Up to where a batch may read: what is there now, or was there when the run was asked for that alone."""
        return self._admin(spark).latest(planned) if self._limits is None else self._limits

    def _read_all(self, session: SparkSession, *, topic: str, parts: Sequence[Ranges]) -> DataFrame:
        frames = [self._read(session, topic=topic, offsets=offsets) for offsets in merge_ranges(parts)]
        return reduce(lambda a, b: a.unionByName(b), frames)

    def _read(self, session: SparkSession, *, topic: str, offsets: Ranges) -> DataFrame:
        options = {**_CONSUMER_DEFAULTS, **self._options(_READER_OPTIONS)}
        reader = session.read.format("kafka").options(**options)
        tasks = -(-count_records(offsets) // _RECORDS_PER_TASK)
        if tasks > 1 and not self.config.options().get("minPartitions"):
            reader = reader.option("minPartitions", max(tasks, session.sparkContext.defaultParallelism))
        starts, ends = ({p: pair[i] for p, pair in offsets.items()} for i in (0, 1))
        return (
            reader.option("assign", json.dumps({topic: [int(partition) for partition in offsets]}))
            .option("startingOffsets", json.dumps({topic: starts}))
            .option("endingOffsets", json.dumps({topic: ends}))
            .load()
        )
