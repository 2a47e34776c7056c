"""Records of a Kinesis stream, in ranges of its shards.

Kinesis does not say where a shard ends now, so a range is found by reading it: once, on executors, and what was read is kept
until the batch is over. A range that comes again, after a crash, is read again up to the records that its offset names.
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
from headrace_sources.kinesis.kinesis_stream import Stream, read_summary
from headrace_sources.kinesis.range_planner import Planner, plan_range
from headrace_sources.kinesis.shard_positions import Place, from_offset, partition_of
from headrace_sources.kinesis.shard_reader import SCHEMA, Mark, Reading, read_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds between two looks at a stream that had nothing new, and between two subscriptions to a shard: Kinesis refuses an earlier one.
_IDLE_SECONDS, _SUBSCRIBE_SECONDS = 1.0, 5.0


@dataclass(frozen=True)
class _Kept:
    """What was read to find a range."""

    start: Offset
    end: Offset
    records: DataFrame
    #: Milliseconds by which it is behind the newest record.
    behind: int


class KinesisSource(RangedSource):
    """``kinesis: {stream: shop.public.orders, region: eu-west-1}``. The topic is the stream's name."""

    name = "kinesis"
    api_version = 1
    Config = KinesisConfig
    config: KinesisConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._stream = Stream.of(self.config)
        self._client: Any = None
        self._planner: Planner | None = None
        self._spark: SparkSession | None = None
        #: The records of the marks that were read last, how far these are behind, and both as the range that they are.
        self._read: tuple[DataFrame, int] | None = None
        self._kept: _Kept | None = None
        self._cached: list[DataFrame] = []
        self._idle_until = self._subscribe_at = 0.0

    def extras(self) -> Sequence[str]:
        return ("aws",)

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
        return self._plan().find_begin()

    def prepare_for_trigger_available_now(self) -> None:
        self._plan().bound()

    def latest(self, start: Offset, limit: int | None) -> Offset:
        self._forget()
        if time.monotonic() < self._idle_until:
            return start
        end = self._plan().find_end(start, limit)
        if end == start:
            self._idle_until = max(time.monotonic() + _IDLE_SECONDS, self._subscribe_at)
        elif self._read is not None:
            self._kept = _Kept(start, end, *self._read)
        return end

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        if kept := self._find_kept(start, end):
            return kept.records
        readings = plan_range(self._stream, start, end, is_lenient=not self.config.fail_on_data_loss)
        return self._select(self._run(spark, readings))

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        if context.replay is None and context.range is not None:
            start, end = map(from_offset, context.range)
            if all(place.sequence == start.get(shard, Place()).sequence for shard, place in end.items()):
                return {}
        return {self._stream.name: partial(move_to_session, frame)}

    def lag_ms(self, context: SourceContext) -> Mapping[str, int]:
        kept = self._find_kept(*context.range) if context.range else None
        return {self._stream.name: kept.behind} if kept else {}

    def explain(self, error: BaseException) -> HeadraceError | None:
        return find_carried(error)

    def _find_kept(self, start: Offset, end: Offset) -> _Kept | None:
        """What was read to find this range, if it is the last one."""
        kept = self._kept
        return kept if kept is not None and (kept.start, kept.end) == (start, end) else None

    def _plan(self) -> Planner:
        """Its planner, which remembers what this run has seen."""
        if self._planner is None:
            self._planner = Planner(self._stream, self.config, self._ask(), self._find)
        return self._planner

    def _ask(self) -> Any:
        """This run's client."""
        if self._client is None:
            self._client = self._stream.make_client()
        return self._client

    def _find(self, readings: Sequence[Reading]) -> list[Mark]:
        """Reads shards, keeps what was read, and says how far that went."""
        assert self._spark is not None, "open() comes first"
        frame = self._run(self._spark, readings)
        rows = frame.where("mark IS NOT NULL").select("mark").collect()
        marks = [Mark(**json.loads(row["mark"])) for row in rows]
        records = self._select(frame, {partition_of(mark.shard): mark.number for mark in marks})
        self._read = records, max((mark.behind for mark in marks), default=0)
        return marks

    def _run(self, spark: SparkSession, readings: Sequence[Reading]) -> DataFrame:
        """The records and marks of some readings, read when first asked for and kept until the next range is looked for."""
        number = max(1, min(len(readings), spark.sparkContext.defaultParallelism))
        tasks = [readings[first::number] for first in range(number)]
        read = partial(read_shards, self._find_stream(), tasks, look=time.time_ns())
        frame = spark.range(0, number, 1, number).mapInArrow(read, SCHEMA)
        self._cached.append(frame.persist())
        return frame

    def _find_stream(self) -> Stream:
        """The stream as executors read it now: by its consumer, when that may subscribe again."""
        if (name := self.config.consumer_name) is None:
            return self._stream
        consumer = find_consumer(self._stream, self._ask(), name)
        time.sleep(max(0.0, self._subscribe_at - time.monotonic()))
        self._subscribe_at = time.monotonic() + _SUBSCRIBE_SECONDS
        return replace(self._stream, consumer=consumer)

    def _select(self, frame: DataFrame, numbers: Mapping[int, int] | None = None) -> DataFrame:
        """The records; with ``numbers`` (partition → the last one), not what came after the range was found.

        Of a part that an executor lost, Spark reads again what there is by then.
        """
        from pyspark.sql import functions as F

        records = frame.where("mark IS NULL")
        if numbers:
            last = F.create_map(*[F.lit(value).cast("bigint") for pair in numbers.items() for value in pair])
            records = records.where(F.col("offset") <= last[F.col("partition").cast("bigint")])
        topic = F.lit(self._stream.name).alias("topic")
        return records.select("key", "value", "headers", topic, "partition", "offset", "timestamp")

    def _forget(self) -> None:
        """Lets go of what was read: the batch that it was for is over."""
        for frame in self._cached:
            frame.unpersist()
        self._cached.clear()
        self._read = self._kept = None
