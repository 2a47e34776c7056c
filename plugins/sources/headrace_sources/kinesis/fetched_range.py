"""Cached records of a range whose end was found by reading, and the frames of its streams."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.sdk import HeadraceError, RetriableError
from headrace_sources.kinesis.kinesis_errors import error_of_json, write_carried
from headrace_sources.kinesis.kinesis_stream import KinesisStream
from headrace_sources.kinesis.range_planner import Found
from headrace_sources.kinesis.shard_reader import SCHEMA, Mark, Reading
from headrace_sources.kinesis.stream_reader import StreamReadings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Spark recomputes a lost part of the records, and their stream has an error now.
_LOST_AGAIN = RetriableError(
    "lost records cannot be read again now", where="Kinesis", fix="retry later; nothing is lost"
)

Work = Sequence[tuple[KinesisStream, Sequence[Reading]]]


@dataclass(frozen=True)
class FetchedRange:
    """Records of a range with the marks of its shards."""

    frame: DataFrame
    found: Found
    #: Stream → numbers of its readings, first and last.
    spans: Mapping[str, tuple[int, int]]
    #: Last record of each reading; -1 for a reading without a mark.
    last: Sequence[int]

    @classmethod
    def of(cls, frame: DataFrame, work: Work) -> FetchedRange:
        """Read the shards and return the result. The readings have consecutive numbers in the order of ``work``."""
        names = [stream.name for stream, readings in work for _ in readings]
        rows = frame.where("mark IS NOT NULL").select("reading", "mark").collect()
        marks: dict[str, list[Mark]] = {}
        errors, last = {}, [-1] * len(names)
        for row in rows:
            mark, number = json.loads(row["mark"]), row["reading"]
            if "error" in mark:
                errors[names[number]] = error_of_json(mark["error"])
            else:
                marks.setdefault(names[number], []).append(Mark(**mark))
                last[number] = mark["number"]
        spans = {name: (names.index(name), names.index(name) + names.count(name) - 1) for name in dict.fromkeys(names)}
        return cls(frame, Found(marks, errors), spans, last)

    @property
    def behind(self) -> dict[str, int]:
        """Stream → lag behind its newest record in milliseconds."""
        return {name: max(mark.behind for mark in marks) for name, marks in self.found.marks.items()}

    def select_all(self, streams: Collection[str]) -> DataFrame:
        """Return the records of some streams in the range."""
        from pyspark.sql import functions as F

        names = [name for name, (first, last) in self.spans.items() for _ in range(first, last + 1)]
        ends = [end if name in streams else -1 for name, end in zip(names, self.last, strict=True)]
        # Like the topic of a stream's records, it is not nullable.
        topic = F.coalesce(F.get(F.array(*map(F.lit, names)), "reading"), F.lit(""))
        return select_records(self._take(ends, 0), topic)

    def select(self, stream: str) -> DataFrame:
        """Return the records of a stream in the range."""
        from pyspark.sql import functions as F

        first, last = self.spans[stream]
        return select_records(self._take(self.last[first : last + 1], first), F.lit(stream))

    def _take(self, ends: Sequence[int], first: int) -> DataFrame:
        """Return the records of some readings up to their ends. If Spark recomputes a lost part, the read can return newer records."""
        from pyspark.sql import functions as F

        end = F.get(F.array(*[F.lit(end).cast("bigint") for end in ends]), F.col("reading") - first)
        is_in_range = F.col("mark").isNull() & (F.col("offset") <= end)
        has_failed = F.col("mark").startswith('{"error"') & (end >= 0)
        # The numbers of the readings restrict the scan to a part of the cache.
        own = self.frame.where(F.col("reading").between(first, first + len(ends) - 1))
        return own.where(F.when(has_failed, _fail(_LOST_AGAIN)).otherwise(is_in_range))


def select_records(frame: DataFrame, topic: Column) -> DataFrame:
    """Return the records in the columns of a source."""
    records = frame.where("mark IS NULL")
    return records.select("key", "value", "headers", topic.alias("topic"), "partition", "offset", "timestamp")


def make_tasks(work: Work, parallelism: int) -> list[list[StreamReadings]]:
    """Divide readings among tasks, and number them. Each task reads shards of several streams."""
    numbered, number = [], 0
    for stream, readings in work:
        for reading in readings:
            numbered.append((stream, replace(reading, number=number)))
            number += 1
    count = max(1, min(len(numbered), parallelism))
    return [_group(numbered[first::count]) for first in range(count)]


def _group(readings: Sequence[tuple[KinesisStream, Reading]]) -> list[StreamReadings]:
    """Group the readings of a task by stream."""
    groups: dict[KinesisStream, list[Reading]] = {}
    for stream, reading in readings:
        groups.setdefault(stream, []).append(reading)
    return [StreamReadings(stream, of) for stream, of in groups.items()]


def fail_records(spark: SparkSession, stream: str, error: HeadraceError) -> DataFrame:
    """Return records of a stream that fail with an error as soon as they are read."""
    from pyspark.sql import functions as F

    nothing = F.from_json(F.lit("{}"), SCHEMA).alias("row")
    return select_records(spark.range(1).where(_fail(error)).select(nothing).select("row.*"), F.lit(stream))


def _fail(error: HeadraceError) -> Column:
    """Return a condition that raises an error for each row."""
    from pyspark.sql import functions as F

    return F.raise_error(F.lit(write_carried(error))).cast("boolean")
