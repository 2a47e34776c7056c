"""Records of Kafka topics. Spark's Kafka stream plans the offsets of a batch and stores them.

The stream itself is never read: a separate query reads each topic's offsets of a batch, so that twenty tables of twenty
topics read each record once, without a cache. The stream determines how many records a batch has; ``kafka_shares`` divides
them among the topics.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.sdk import ConfigError, DataError, Dataset, HeadraceError, NativeSource, SourceContext
from headrace.sdk.findings import Checkup, Finding
from headrace.sdk.options import did_you_mean, option_text
from headrace.sdk.storage import Folder
from headrace_kafka.kafka_admin import Offsets, with_timeouts
from headrace_kafka.kafka_client import KafkaClient
from headrace_kafka.kafka_errors import NO_SUCH_TOPIC, explain_kafka_error
from headrace_sources.retention import find_expired
from headrace_sources.transports.kafka_config import READER_OPTIONS, STREAM_OPTIONS, TOPIC_OPTIONS, KafkaConfig
from headrace_sources.transports.kafka_offsets import Ranges, count_records, is_past, merge_ranges
from headrace_sources.transports.kafka_restart import read_newest_offsets
from headrace_sources.transports.kafka_shares import FairShares, read_applied_end
from headrace_sources.transports.kafka_topic_ids import TopicIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)
#: Default limit of a batch's records, so that a backlog is applied, and its progress reported, in parts.
MAX_RECORDS_PER_BATCH = 1_000_000
#: Newest records of each partition that `headrace check --connect` reads.
SAMPLE_RECORDS = 10
#: Records of a topic that one task reads. A large backlog becomes many tasks, between which other tables' tasks run.
_RECORDS_PER_TASK = 50_000
#: All records of a batch exist when it is read: a broker that waits for more only delays the batch. Spark requests a
#: partition's first and last offset after every poll, which is 500 records by default; ``max.partition.fetch.bytes`` still
#: limits the bytes of a poll.
_CONSUMER_DEFAULTS = {"kafka.fetch.max.wait.ms": "10", "kafka.max.poll.records": "10000"}


class KafkaSource(KafkaClient, NativeSource):
    """``kafka: {bootstrap.servers: "broker:9092", subscribePattern: 'shop[.].*'}``."""

    name = "kafka"
    api_version = 1
    Config = KafkaConfig
    config: KafkaConfig
    # Records of aborted transactions are not read.
    client_defaults: ClassVar[Mapping[str, str]] = {"isolation.level": "read_committed"}
    _shares: FairShares | None = None
    _topic_ids: TopicIds | None = None
    #: End offsets at the start of a run that applies only available records, for the next stream and for the current one.
    _available: Offsets | None = None
    _limits: Offsets | None = None

    def named_topics(self) -> list[str]:
        if self.config.subscribePattern:
            return []
        return [name.strip() for name in self.config.assign or option_text(self.config.subscribe).split(",")]

    def locate(self, topic: str) -> Dataset | None:
        return self.locate_topic(topic)

    def reads_topic(self, topic: str, spark: SparkSession | None = None) -> bool:
        return topic in self.named_topics() if spark is None else self._select_topics(spark)(topic)

    def check_stream(self, context: SourceContext) -> None:
        # If the new topic has as many records as the old one, Spark plans no batch, so no batch would detect the new topic.
        assert context.stream is not None
        self.admin(context.spark).await_broker()
        ids = TopicIds(context.stream, self.admin(context.spark).ids)
        if recreated := ids.find_recreated(self._select_topics(context.spark)):
            self._reject_recreated(recreated)

    def stream(self, spark: SparkSession) -> DataFrame:
        self.admin(spark).await_broker()
        # State of an earlier stream is invalid: the checkpoint may be new, and the limits outdated.
        self._shares, self._limits, self._available = None, self._available, None
        name, value = self._topic_option
        options = {
            "maxOffsetsPerTrigger": f"{MAX_RECORDS_PER_BATCH}",
            # The stream only reads offsets. headrace repeats a failed request itself, and reports it first.
            "fetchOffset.numRetries": "2",
            **self._options(READER_OPTIONS + STREAM_OPTIONS),
            **{f"kafka.{name}": value for name, value in with_timeouts(self.client_options()).items()},
        }
        reader = spark.readStream.format("kafka").options(**options)
        reader = reader.option(name, option_text(value))
        reader = reader.option("startingOffsets", option_text(self.config.startingOffsets))
        return reader.load()

    def prepare_for_trigger_available_now(self, spark: SparkSession) -> None:
        self.admin(spark).await_broker()
        try:
            partitions, others = self._find_partitions(spark)
        except ConfigError:  # a topic is missing or not visible: the stream reports it
            return
        if not partitions and self.config.subscribePattern:
            pattern = self.config.subscribePattern
            raise ConfigError(
                f"no topic matches subscribePattern {pattern!r}", where=self._where, fix=did_you_mean(pattern, others)
            )
        self._available = self.admin(spark).latest(partitions)

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        if context.replay is not None:
            present = self._drop_deleted(context, context.replay)
            return {topic: partial(self._read_all, topic=topic, parts=parts) for topic, parts in present.items()}
        if self._shares is None:  # the first batch of the stream
            read_newest_offsets(context.spark)
        ranges = self._ranges(context)
        return {topic: partial(self._read, topic=topic, offsets=offsets) for topic, offsets in ranges.items()}

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any]:
        ranges = self._ranges(context)
        assert self._topic_ids is not None, "the batch is planned"
        stamp = self._topic_ids.stamp
        return {topic: stamp(topic, ranges[topic]) for topic in topics}

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        admin = self.admin(spark)
        yield "source kafka", self.describe_cluster(spark)
        partitions, others = self._find_partitions(spark)
        first, last = admin.earliest(partitions), admin.latest(partitions)
        for topic, numbers in partitions.items():
            records = sum(last[topic][p] - first[topic][p] for p in numbers)
            yield f"topic {topic}", f"{len(numbers)} partition{'s' * (len(numbers) != 1)}, {records} records"
        if not partitions:
            visible = (
                f"the cluster has {', '.join(others[:10])}"
                if others
                else "the cluster has no topic that these credentials can read"
            )
            yield "topics", f"none matches {self.config.subscribePattern}: the stream waits for a topic; {visible}"

    def diagnose(self, checkup: Checkup) -> Iterator[Finding]:
        yield from super().diagnose(checkup)
        if checkup.spark is None or checkup.stream is None or checkup.batch is None:
            return
        read, (found, _) = read_applied_end(checkup.stream, checkup.batch), self._find_partitions(checkup.spark)
        partitions = {
            topic: [n for n in numbers if n in read[topic]] for topic, numbers in found.items() if topic in read
        }
        admin = self.admin(checkup.spark)
        yield from find_expired(read, admin.earliest(partitions), admin.latest(partitions))

    def sample_records(self, context: SourceContext) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        admin, (partitions, _) = self.admin(context.spark), self._find_partitions(context.spark)
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
        end_offsets = shares.end(context.batch)
        end = {topic: end_offsets[topic] for topic in shares.ranges(context.batch)}  # only topics with new records
        latest = self.admin(context.spark).latest(end)
        return {topic: sum(max(0, latest[topic][p] - end[topic][p]) for p in end[topic]) for topic in end}

    def commit(self, context: SourceContext) -> None:
        group = self.config.commit_group
        if group is not None:
            assert context.stream is not None
            assert context.batch is not None
            end = self._shares_of(context.spark, context.stream).end(context.batch)
            self.admin(context.spark).commit(group, end)

    def find_end(self, context: SourceContext) -> dict[str, Any]:
        partitions, _ = self._find_partitions(context.spark)
        return dict(self.admin(context.spark).latest(partitions))

    def has_read(self, context: SourceContext, end: Mapping[str, Any]) -> bool:
        assert context.stream is not None
        assert context.batch is not None
        return is_past(read_applied_end(context.stream, context.batch), end)

    def offset_epoch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, str]:
        return self.admin(context.spark).describe_origins(topics)

    def explain(self, error: BaseException) -> HeadraceError | None:
        auth = self.config.auth
        found: HeadraceError | None = auth.explain(error) if auth else None
        found = found or explain_kafka_error(error, self._where)
        if isinstance(found, ConfigError) and found.what.startswith(NO_SUCH_TOPIC) and self._client is not None:
            with suppress(Exception):  # The broker does not respond: the names stay unknown.
                names = self._client.topics()
                missing = [name for name in self.named_topics() if name not in names]
                found.fix = f"{found.fix}; {did_you_mean(missing[0], names)}" if missing else found.fix
        return found

    @property
    def _where(self) -> str:
        name, value = self._topic_option
        return f"source kafka, {self.servers}, {name} {option_text(value)}"

    @property
    def _topic_option(self) -> tuple[str, Any]:
        """Name and value of the option that selects the topics."""
        name = next(name for name in TOPIC_OPTIONS if getattr(self.config, name))
        return name, getattr(self.config, name)

    def _options(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the options that the stream and the queries share."""
        return {
            **{k: v for k, v in self.config.options().items() if k in names},
            **{f"kafka.{k}": v for k, v in self.client_options().items()},
            "failOnDataLoss": option_text(self.config.failOnDataLoss),
            "includeHeaders": "true",
        }

    def _find_partitions(self, spark: SparkSession) -> tuple[dict[str, list[str]], list[str]]:
        """Return the source's existing topics with their partitions, and the names of the cluster's other topics."""
        admin, config = self.admin(spark), self.config
        names = admin.topics()
        if config.subscribePattern:
            wanted = list(filter(self._select_topics(spark), names))
        else:
            wanted = self.named_topics()
            for name in wanted:
                if name not in names:
                    fix = did_you_mean(name, names)
                    raise ConfigError(f"no such topic: {name!r}", where=f"source kafka, {self.servers}", fix=fix)
        partitions = admin.partitions(wanted)
        if config.assign:
            partitions = {topic: [str(p) for p in numbers] for topic, numbers in config.assign.items()}
        return partitions, [name for name in names if name not in wanted]

    def _select_topics(self, spark: SparkSession) -> Callable[[str], bool]:
        """Return the function that returns whether the options select a topic."""
        if not self.config.subscribePattern:
            return set(self.named_topics()).__contains__
        # Kafka's client uses Java's expressions.
        pattern: Any = spark._jvm.java.util.regex.Pattern.compile(self.config.subscribePattern)  # type: ignore[union-attr]  # noqa: SLF001
        return lambda name: bool(pattern.matcher(name).matches())

    def _ranges(self, context: SourceContext) -> dict[str, Ranges]:
        """Return the batch's ranges by topic."""
        assert context.stream is not None
        assert context.batch is not None
        return self._shares_of(context.spark, context.stream).ranges(context.batch)

    def _shares_of(self, spark: SparkSession, stream: Folder) -> FairShares:
        if self._shares is None:
            limit = int(self.config.options().get("maxOffsetsPerTrigger", MAX_RECORDS_PER_BATCH))
            admin = self.admin(spark)
            self._topic_ids = TopicIds(stream, admin.ids)
            find_recreated = partial(self._topic_ids.note, reject=self._reject_recreated)
            self._shares = FairShares(stream, limit, partial(self._find_bounds, spark), admin.earliest, find_recreated)
        return self._shares

    def _reject_recreated(self, topics: Collection[str]) -> None:
        """Raise DataError for topics that were created again, unless the options accept lost records."""
        if self.config.failOnDataLoss:
            raise DataError(
                f"a topic was deleted and created again since it was last read: {', '.join(topics)}. Records of the old topic may have "
                "been deleted before they were read",
                where=f"source kafka, {self.servers}",
                fix="start with a new checkpoint; or set `failOnDataLoss: false` to continue with the first record of the new topic",
            )

    def _drop_deleted(self, context: SourceContext, replay: Mapping[str, Sequence[Any]]) -> dict[str, list[Ranges]]:
        """Return the ranges of existing topics. DataError for ranges of a deleted topic, unless the options accept lost records."""
        assert context.stream is not None
        # The ids are read again, because the thread of the batches changes those in memory.
        ids = TopicIds(context.stream, self.admin(context.spark).ids)
        present = {topic: ids.keep_current(topic, parts) for topic, parts in replay.items()}
        for topic, parts in replay.items():
            if len(present[topic]) < len(parts):
                where = f"source kafka, {self.servers}"
                message = f"the topic {topic} was deleted and created again before a table caught up: records of the old topic are lost"
                if self.config.failOnDataLoss:
                    raise DataError(message, where=where, fix="set `failOnDataLoss: false` to continue without them")
                _LOG.warning("%s: %s", where, message)
        return {topic: parts for topic, parts in present.items() if parts}

    def _find_bounds(self, spark: SparkSession, planned: Offsets) -> Offsets:
        """Return the offsets up to which a batch may read: the latest ones, or those at the start of an available-now run."""
        return self.admin(spark).latest(planned) if self._limits is None else self._limits

    def _read_all(self, session: SparkSession, *, topic: str, parts: Sequence[Ranges]) -> DataFrame:
        frames = [self._read(session, topic=topic, offsets=offsets) for offsets in merge_ranges(parts)]
        return reduce(lambda a, b: a.unionByName(b), frames)

    def _read(self, session: SparkSession, *, topic: str, offsets: Ranges) -> DataFrame:
        options = {**_CONSUMER_DEFAULTS, **self._options(READER_OPTIONS)}
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
