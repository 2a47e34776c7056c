"""Source plugin ``kinesis``: records of a stream, in ranges of its shards.

Kinesis does not report the current end of a shard, so a range is determined by reading it once on executors. The records
stay cached until the batch ends. A range that is repeated after a crash is read again up to the records in its offset.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.sdk import HeadraceError, Offset, RangedSource, SourceContext
from headrace.sdk.sessions import move_to_session
from headrace_sources.kinesis.fan_out_consumer import find_consumer, read_state
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_errors import find_carried
from headrace_sources.kinesis.kinesis_stream import KinesisStream, read_summary
from headrace_sources.kinesis.range_planner import Planner, plan_range
from headrace_sources.kinesis.shard_positions import find_read, from_offset, partition_of
from headrace_sources.kinesis.shard_reader import SCHEMA, Mark, Reading, read_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds between two reads of an idle stream, and the shortest interval between subscriptions to a shard.
_IDLE_SECONDS, _SUBSCRIBE_SECONDS = 1.0, 5.0


@dataclass(frozen=True)
class _Kept:
    """Cached records of a range."""

    start: Offset
    end: Offset
    records: DataFrame
    #: Lag behind the newest record in milliseconds.
    behind: int


class KinesisSource(RangedSource):
    """Plugin of ``kinesis: {stream: shop.public.orders, region: eu-west-1}``. The topic is the name of the stream."""

    name = "kinesis"
    api_version = 1
    Config = KinesisConfig
    config: KinesisConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._stream = KinesisStream.of(self.config)
        self._client: Any = None
        self._planner: Planner | None = None
        self._spark: SparkSession | None = None
        #: Records and lag of the last read, and both with their range.
        self._read: tuple[DataFrame, int] | None = None
        self._kept: _Kept | None = None
        self._cached: list[DataFrame] = []
        self._idle_until = self._subscribe_at = 0.0

    def extras(self) -> Sequence[str]:
        return ("aws",)

    def named_topics(self) -> Sequence[str]:
        return [self._stream.name]

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        client = self._stream.make_client()
        summary = read_summary(self._stream, client)
        shards, hours = summary["OpenShardCount"], summary["RetentionPeriodHours"]
        state = f"{summary['StreamStatus']}, {shards} open shard{'s' * (shards != 1)}, records kept for {hours} hours"
        yield "source kinesis", f"{self._stream.where}: {state}"
        if name := self.config.consumer_name:
            yield "source kinesis", f"consumer {name}: {read_state(self._stream, client, name)}"

    def open(self, spark: SparkSession) -> None:
        self._spark, self._planner, self._client, self._idle_until = spark, None, None, 0.0

    def initial(self) -> Offset:
        return self._open_planner().find_begin()

    def prepare_for_trigger_available_now(self) -> None:
        self._open_planner().bound()

    def latest(self, start: Offset, limit: int | None) -> Offset:
        self._forget()
        if time.monotonic() < self._idle_until:
            return start
        end = self._open_planner().find_end(start, limit)
        if end == start:
            self._idle_until = max(time.monotonic() + _IDLE_SECONDS, self._subscribe_at)
        elif self._read is not None:
            self._kept = _Kept(start, end, *self._read)
        return end

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        if kept := self._find_kept(start, end):
            return kept.records
        is_lenient = not self.config.fail_on_data_loss
        readings = plan_range(self._stream, self._open_client(), start, end, is_lenient=is_lenient)
        return self._select(self._run(spark, readings))

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        if context.replay is None and context.range is not None:
            start, end = map(from_offset, context.range)
            if not find_read(start, end):
                return {}
        return {self._stream.name: partial(move_to_session, frame)}

    def lag_ms(self, context: SourceContext) -> Mapping[str, int]:
        kept = self._find_kept(*context.range) if context.range else None
        return {self._stream.name: kept.behind} if kept else {}

    def explain(self, error: BaseException) -> HeadraceError | None:
        return find_carried(error)

    def _find_kept(self, start: Offset, end: Offset) -> _Kept | None:
        """Return the cached records of a range; None if it is not the last one."""
        kept = self._kept
        return kept if kept is not None and (kept.start, kept.end) == (start, end) else None

    def _open_planner(self) -> Planner:
        """Return the planner of this run."""
        if self._planner is None:
            self._planner = Planner(self._stream, self.config, self._open_client(), self._find)
        return self._planner

    def _open_client(self) -> Any:
        """Return the client of this run."""
        if self._client is None:
            self._client = self._stream.make_client()
        return self._client

    def _find(self, readings: Sequence[Reading]) -> list[Mark]:
        """Read shards, cache the records and return the end of each shard."""
        assert self._spark is not None, "open() was not called"
        frame = self._run(self._spark, readings)
        rows = frame.where("mark IS NOT NULL").select("mark").collect()
        marks = [Mark(**json.loads(row["mark"])) for row in rows]
        records = self._select(frame, {partition_of(mark.shard): mark.number for mark in marks})
        self._read = records, max((mark.behind for mark in marks), default=0)
        return marks

    def _run(self, spark: SparkSession, readings: Sequence[Reading]) -> DataFrame:
        """Return a cached frame of records and marks; the first action on it reads the shards."""
        number = max(1, min(len(readings), spark.sparkContext.defaultParallelism))
        tasks = [readings[first::number] for first in range(number)]
        read = partial(read_shards, self._find_stream(), tasks, nonce=time.time_ns())
        frame = spark.range(0, number, 1, number).mapInArrow(read, SCHEMA)
        self._cached.append(frame.persist())
        return frame

    def _find_stream(self) -> KinesisStream:
        """Return the stream for executors. With a consumer, wait until it can subscribe again."""
        if (name := self.config.consumer_name) is None:
            return self._stream
        consumer = find_consumer(self._stream, self._open_client(), name)
        time.sleep(max(0.0, self._subscribe_at - time.monotonic()))
        self._subscribe_at = time.monotonic() + _SUBSCRIBE_SECONDS
        return replace(self._stream, consumer=consumer)

    def _select(self, frame: DataFrame, numbers: Mapping[int, int] | None = None) -> DataFrame:
        """Return the records, up to ``numbers`` (partition → last number) of the range.

        If Spark recomputes a lost partition, the read can return newer records.
        """
        from pyspark.sql import functions as F

        records = frame.where("mark IS NULL")
        if numbers:
            last = F.create_map(*[F.lit(value).cast("bigint") for pair in numbers.items() for value in pair])
            records = records.where(F.col("offset") <= last[F.col("partition").cast("bigint")])
        topic = F.lit(self._stream.name).alias("topic")
        return records.select("key", "value", "headers", topic, "partition", "offset", "timestamp")

    def _forget(self) -> None:
        """Release the cached records of the last batch."""
        for frame in self._cached:
            frame.unpersist()
        self._cached.clear()
        self._read = self._kept = None
