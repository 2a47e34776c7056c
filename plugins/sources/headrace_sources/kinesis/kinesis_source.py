"""Source plugin ``kinesis``: records of streams, in ranges of their shards.

Kinesis does not report the current end of a shard, so a range is determined by reading it once on executors. The records
stay cached until the batch ends. A range that is repeated after a crash is read again up to the records in its offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, Dataset, HeadraceError, Offset, RangedSource, RetriableError, SourceContext
from headrace.sdk.findings import Checkup, Finding
from headrace.sdk.sessions import move_to_session
from headrace_sources.kinesis.fan_out_consumer import find_consumer, read_state
from headrace_sources.kinesis.fetched_range import FetchedRange, fail_records, make_tasks, select_records
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_errors import error_of_json, find_carried
from headrace_sources.kinesis.kinesis_stream import KinesisStream, NoSuchStreamError, list_shards, read_summary
from headrace_sources.kinesis.range_planner import Found, Planner
from headrace_sources.kinesis.shard_positions import find_failures, find_read_streams, pick_stream
from headrace_sources.kinesis.shard_reader import SCHEMA, Reading, read_shards
from headrace_sources.kinesis.stream_planner import StreamPlanner, plan_range
from headrace_sources.kinesis.stream_reader import read_streams
from headrace_sources.kinesis.stream_selection import StreamSelection
from headrace_sources.retention import find_expiring

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds between two reads of an idle stream, and the shortest interval between subscriptions to a shard. Kinesis accepts five
#: reads per second of a shard, from all its readers.
_IDLE_SECONDS, _SUBSCRIBE_SECONDS = 1.0, 5.0


class KinesisSource(RangedSource):
    """Plugin of ``kinesis: {stream: shop.public.orders, region: eu-west-1}``. The topics are the names of the streams."""

    name = "kinesis"
    api_version = 1
    connect_needs_spark = False
    Config = KinesisConfig
    config: KinesisConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._selection = StreamSelection(self.config, self._open_client)
        #: Region and identity → client of this run.
        self._clients: dict[KinesisStream, Any] = {}
        self._planner: Planner | None = None
        self._spark: SparkSession | None = None
        #: Records of the last read, and its range.
        self._fetched: FetchedRange | None = None
        self._range: tuple[Offset, Offset] | None = None
        self._cached: list[DataFrame] = []
        self._subscribe_at = 0.0

    def extras(self) -> Sequence[str]:
        return ("aws",)

    def named_topics(self) -> Sequence[str]:
        return [] if self._selection.pattern else self._selection.find()

    def locate(self, topic: str) -> Dataset | None:
        return self._selection.open(topic).dataset

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        self._clients.clear()
        names = self._selection.find()
        yield "source kinesis", f"{self._selection.service.where}: {len(names)} stream{'s' * (len(names) != 1)}"
        for name in names:
            yield f"topic {name}", self._describe(self._selection.open(name))
        if not names:
            yield "topics", f"the stream waits: {self._selection.reject_nothing()}"

    def diagnose(self, checkup: Checkup) -> Iterator[Finding]:
        for name in self._selection.find():
            stream = self._selection.open(name)
            client = self._open_client(stream)
            checkup.note_time(stream.where, list_shards(stream, client)[1] / 1000)
            hours = read_summary(stream, client)["RetentionPeriodHours"]
            yield from find_expiring(checkup.delay_seconds, 3600.0 * hours, stream.where)

    def open(self, spark: SparkSession) -> None:
        self._spark, self._planner = spark, None
        self._clients.clear()

    def initial(self) -> Offset:
        return self._open_planner().find_begin()

    def prepare_for_trigger_available_now(self) -> None:
        self._open_planner().bound()

    def latest(self, start: Offset, limit: int | None) -> Offset:
        self._forget()
        end = self._open_planner().find_end(start, limit)
        self._range = (start, end)
        return end

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        names = find_read_streams(start, end)
        if fetched := self._find_fetched((start, end)):
            return fetched.select_all(names)
        frames = [self._repeat(spark, name, start, end) for name in names]
        return reduce(lambda a, b: a.unionByName(b), frames or [self._read_again(spark, self._selection.service, [])])

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        found: dict[str, Callable[[SparkSession], DataFrame]] = {}
        if context.replay is not None:
            spans = [span for of in context.replay.values() for span in of]
            found = {name: partial(_move_topic, frame, name) for name in context.replay}
        else:
            spans = [context.range] if context.range else []
            fetched = self._find_fetched(context.range)
            for name in (name for span in spans for name in find_read_streams(*span)):
                found[name] = partial(_move_fetched, fetched, name) if fetched else partial(_move_topic, frame, name)
        if self.config.fail_on_data_loss:
            failures = {name: fields for span in spans for name, fields in find_failures(*span).items()}
            found |= {name: partial(_raise, error_of_json(fields)) for name, fields in failures.items()}
        return found

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        if context.range is None:
            return None
        return {topic: [pick_stream(offset, topic) for offset in context.range] for topic in topics}

    def lag_ms(self, context: SourceContext) -> Mapping[str, int]:
        fetched = self._find_fetched(context.range)
        return fetched.behind if fetched else {}

    def explain(self, error: BaseException) -> HeadraceError | None:
        return find_carried(error)

    def _describe(self, stream: KinesisStream) -> str:
        """Describe the state of a stream."""
        client = self._open_client(stream)
        summary = read_summary(stream, client)
        shards, hours = summary["OpenShardCount"], summary["RetentionPeriodHours"]
        state = f"{summary['StreamStatus']}, {shards} open shard{'s' * (shards != 1)}, records kept for {hours} hours"
        name = self.config.consumer_name
        return f"{state}; consumer {name}: {read_state(stream, client, name)}" if name else state

    def _find_fetched(self, span: tuple[Offset, Offset] | None) -> FetchedRange | None:
        """Return the cached records of a range; None if it is not the last one."""
        return self._fetched if span is not None and self._range == tuple(span) else None

    def _open_planner(self) -> Planner:
        """Return the planner of this run."""
        if self._planner is None:
            idle = _SUBSCRIBE_SECONDS if self.config.consumer_name else _IDLE_SECONDS
            self._planner = Planner(self._selection, self.config, self._open_stream, self._fetch, idle)
        return self._planner

    def _open_stream(self, stream: KinesisStream) -> StreamPlanner:
        return StreamPlanner(stream, self.config, self._open_client(stream))

    def _open_client(self, stream: KinesisStream) -> Any:
        """Return the client of a stream in this run."""
        if stream.service not in self._clients:
            self._clients[stream.service] = stream.make_client()
        return self._clients[stream.service]

    def _fetch(self, work: Sequence[tuple[KinesisStream, Sequence[Reading]]]) -> Found:
        """Read shards, cache the records and return the end of each shard."""
        assert self._spark is not None, "open() was not called"
        parts, errors = [], {}
        for stream, readings in work:
            try:
                parts.append((self._find_consumer(stream), readings))
            except (NoSuchStreamError, RetriableError) as error:
                errors[stream.name] = error
        if not parts:
            return Found({}, errors)
        self._await_subscriptions()
        tasks = make_tasks(parts, self._spark.sparkContext.defaultParallelism)
        frame = self._run(self._spark, len(tasks), partial(read_streams, tasks, nonce=time.time_ns()))
        self._fetched = FetchedRange.of(frame, parts)
        return replace(self._fetched.found, errors={**self._fetched.found.errors, **errors})

    def _repeat(self, spark: SparkSession, name: str, start: Offset, end: Offset) -> DataFrame:
        """Return the records of a stream in a range that was read before. If they are lost, the frame fails, and only its tables do."""
        stream, is_lenient = self._selection.open(name), not self.config.fail_on_data_loss
        try:
            readings = plan_range(stream, self._open_client(stream), start, end, is_lenient=is_lenient)
            if readings:
                stream = self._find_consumer(stream)
                self._await_subscriptions()
        except (DataError, NoSuchStreamError) as error:
            lost = error.to_lost() if isinstance(error, NoSuchStreamError) else error
            return self._read_again(spark, stream, []) if is_lenient else fail_records(spark, name, lost)
        return self._read_again(spark, stream, readings)

    def _read_again(self, spark: SparkSession, stream: KinesisStream, readings: Sequence[Reading]) -> DataFrame:
        """Return the records of the readings of a stream."""
        from pyspark.sql import functions as F

        number = max(1, min(len(readings), spark.sparkContext.defaultParallelism))
        tasks = [readings[first::number] for first in range(number)]
        frame = self._run(spark, number, partial(read_shards, stream, tasks, nonce=time.time_ns()))
        return select_records(frame, F.lit(stream.name))

    def _run(self, spark: SparkSession, tasks: int, read: Callable[[Iterable[Any]], Iterable[Any]]) -> DataFrame:
        """Return a cached frame of records and marks; the first action on it reads the shards."""
        frame = spark.range(0, tasks, 1, tasks).mapInArrow(read, SCHEMA)
        self._cached.append(frame.persist())
        return frame

    def _find_consumer(self, stream: KinesisStream) -> KinesisStream:
        """Return the stream for executors, with the consumer of the options."""
        if (name := self.config.consumer_name) is None:
            return stream
        return replace(stream, consumer=find_consumer(stream, self._open_client(stream), name))

    def _await_subscriptions(self) -> None:
        """With a consumer, wait until it can subscribe again."""
        if self.config.consumer_name is not None:
            time.sleep(max(0.0, self._subscribe_at - time.monotonic()))
            self._subscribe_at = time.monotonic() + _SUBSCRIBE_SECONDS

    def _forget(self) -> None:
        """Release the cached records of the last batch."""
        for frame in self._cached:
            frame.unpersist()
        self._cached.clear()
        self._fetched = self._range = None


def _move_topic(frame: DataFrame, topic: str, session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    return move_to_session(frame.where(F.col("topic") == topic), session)


def _move_fetched(fetched: FetchedRange, topic: str, session: SparkSession) -> DataFrame:
    return move_to_session(fetched.select(topic), session)


def _raise(error: HeadraceError, _: SparkSession) -> DataFrame:
    """Raise the error of a stream, which becomes that of its tables."""
    raise error
