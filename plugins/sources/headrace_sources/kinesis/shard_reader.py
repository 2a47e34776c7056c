"""Reads shards on executors: pages become Arrow batches, those of several shards in turn, or as they come."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, RetriableError
from headrace_sources.kinesis.kinesis_errors import carry_errors
from headrace_sources.kinesis.kinesis_stream import Stream, keep_client
from headrace_sources.kinesis.kpl_aggregation import split
from headrace_sources.kinesis.shard_pages import open_pages
from headrace_sources.kinesis.shard_positions import Place, next_number, partition_of

if TYPE_CHECKING:
    import pyarrow as pa

#: What the batches have, in Spark's words. ``mark`` is null but in the last row of a shard, which is no record.
SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset bigint, "
    "timestamp timestamp, mark string"
)
SEQUENCE_HEADER, SUB_SEQUENCE_HEADER = "kinesis.sequence.number", "kinesis.sub.sequence.number"
#: Bytes after which a range ends; at two megabytes a second these take half a minute.
MOST_BYTES = 64 << 20
#: Seconds before a shard that is busy is asked again at most, and until its reader gives up.
_LONGEST_PAUSE, _PATIENCE = 5.0, 60.0


@dataclass(frozen=True)
class Reading:
    """What to read of a shard: up to and including the record ``end``, else what there is, within limits."""

    shard: str
    begin: Place
    end: str | None = None
    #: Without ``end``: not what arrived at this millisecond or later, and not much more than so many records.
    until: int | None = None
    most_records: int = 1 << 62
    #: With ``end``: go on when records are gone.
    is_lenient: bool = False


@dataclass(frozen=True)
class Mark:
    """How the reading of a shard ended."""

    shard: str
    sequence: str | None
    number: int
    #: Closed, and nothing is left.
    is_done: bool = False
    #: There was nothing more, or nothing that arrived in time.
    is_at_end: bool = False
    #: Milliseconds by which it was behind the newest record of the shard, as Kinesis says it.
    behind: int = 0


def read_shards(
    stream: Stream,
    tasks: Sequence[Sequence[Reading]],
    batches: Iterator[pa.RecordBatch],
    look: int,  # noqa: ARG001 - Spark keeps frames by what they are made of: another look must not be given what was kept of the first
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow`` of a frame of task numbers: the records of the tasks' readings. ``look``: another number each time."""
    with carry_errors():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_readings(stream, keep_client(stream), tasks[number])


def read_readings(stream: Stream, client: Any, readings: Sequence[Reading]) -> Iterator[pa.RecordBatch]:
    """The pages of several shards. One that is busy holds up no other."""
    readers = [ShardReader(stream, client, reading) for reading in readings]
    try:
        pages = _read_as_they_come(readers) if stream.consumer else _read_ahead(_read_in_turn(readers))
        for rows in pages:
            yield rows.to_batch()
    finally:
        for reader in readers:
            reader.close()


def _read_in_turn(readers: Sequence[ShardReader]) -> Iterator[Rows]:
    """A page of each shard after the other, for who asks is answered at once."""
    readers = [*readers]
    while readers:
        reader = min(readers, key=lambda reader: reader.due)
        yield reader.read_page()
        if reader.is_finished:
            readers.remove(reader)


def _read_ahead(pages: Iterator[Rows]) -> Iterator[Rows]:
    """While a page is taken, the next one is on its way."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, pages, None)
        while (page := coming.result()) is not None:
            coming = pool.submit(next, pages, None)
            yield page


def _read_as_they_come(readers: Sequence[ShardReader]) -> Iterator[Rows]:
    """A thread waits for each shard, for it sends when it has something. No shard is a page ahead of what was taken."""
    with ThreadPoolExecutor(max(1, len(readers))) as pool:
        waiting = {pool.submit(reader.read_page): reader for reader in readers}
        while waiting:
            come, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for page in come:
                reader = waiting.pop(page)
                yield page.result()
                if not reader.is_finished:
                    waiting[pool.submit(reader.read_page)] = reader


class ShardReader:
    """Reads one shard page by page."""

    def __init__(self, stream: Stream, client: Any, reading: Reading) -> None:
        self._stream, self._reading = stream, reading
        self._pages = open_pages(stream, client, reading.shard)
        self._sequence, self._number = reading.begin.sequence, reading.begin.number
        self._records = self._bytes = 0
        self._answered, self._pause = time.monotonic(), self._pages.pause
        #: When the next page may be asked for.
        self.due = self._answered
        self.is_finished = False

    def read_page(self) -> Rows:
        """The records of the next page, when it is due; none while the shard is busy."""
        time.sleep(max(0.0, self.due - time.monotonic()))
        rows = Rows(partition_of(self._reading.shard))
        page = self._ask()
        if page is not None and (mark := self._take(page, rows)):
            self.close()
            self._check_end()
            self.is_finished = True
            rows.marks.append(mark)
        return rows

    def close(self) -> None:
        """Lets go of the shard."""
        self._pages.close()

    def _ask(self) -> dict[str, Any] | None:
        """A page; None when there is none now: the shard is busy, or where it was read was too long ago."""
        asked = time.monotonic()
        try:
            page = self._pages.read(
                replace(self._reading.begin, sequence=self._sequence), self._reading.most_records - self._records
            )
        except Exception as error:
            explained = self._stream.explain(error, self._pages.operation)
            now = time.monotonic()
            if not isinstance(explained, RetriableError) or now - self._answered > _PATIENCE:
                raise explained.at(self._stream.where) from error
            self.due, self._pause = now + self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            return None
        self._answered, self._pause = time.monotonic(), self._pages.pause
        self.due = asked + self._pages.gap
        return page

    def _take(self, page: dict[str, Any], rows: Rows) -> Mark | None:
        """Takes what is wanted of a page; the mark when that was the last one."""
        reading = self._reading
        records, behind = page["Records"], page.get("MillisBehindLatest") or 0
        for record in records:
            arrival = _arrival(record)
            if reading.end is not None and int(record["SequenceNumber"]) > int(reading.end):
                return self._mark()
            if reading.until is not None and arrival >= reading.until:
                return self._mark(is_at_end=True, behind=behind + _arrival(records[-1]) - arrival)
            self._sequence, self._number = record["SequenceNumber"], rows.add(record, arrival, self._number)
            self._records += 1
            self._bytes += len(record["Data"])
            if record["SequenceNumber"] == reading.end or (reading.end is None and self._is_full):
                return self._mark(behind=behind + _arrival(records[-1]) - arrival)
        if page.get("NextShardIterator") is None:
            return self._mark(is_done=True, is_at_end=True)
        # An empty page is not the end: there may be a gap of hours before the next record.
        return None if behind else self._mark(is_at_end=True)

    @property
    def _is_full(self) -> bool:
        return self._records >= self._reading.most_records or self._bytes >= MOST_BYTES

    def _mark(self, **how: Any) -> Mark:
        return Mark(self._reading.shard, self._sequence, self._number, **how)

    def _check_end(self) -> None:
        """DataError when the last record of a range is not there any more."""
        reading = self._reading
        if reading.end in (None, self._sequence) or reading.is_lenient:
            return
        raise DataError(
            f"records are gone that were not read: those of {reading.shard} up to {reading.end}",
            where=self._stream.where,
            fix="start with a new checkpoint, or set `fail.on.data.loss: false` to go on with the oldest there are",
        )


def _arrival(record: dict[str, Any]) -> int:
    """In milliseconds."""
    seconds: float = record["ApproximateArrivalTimestamp"]
    return round(seconds * 1000)


@dataclass
class Rows:
    """The rows of a page, column by column."""

    partition: int
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    #: Sequence numbers, and the place in an aggregated record.
    sequences: list[tuple[str, int | None]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, record: dict[str, Any], arrival: int, number: int) -> int:
        """A record, which may be an aggregated one, after one with that number. The number of the last one."""
        parts = split(record["PartitionKey"], record["Data"])
        for index, (key, data) in enumerate(parts):
            number = next_number(number, arrival)
            self.keys.append(key.encode())
            # Kinesis has no null: who sends tombstones sends nothing.
            self.values.append(data or None)
            self.sequences.append((record["SequenceNumber"], index if len(parts) > 1 else None))
            self.numbers.append(number)
            self.arrivals.append(arrival)
        return number

    def to_batch(self) -> pa.RecordBatch:
        import pyarrow as pa

        nulls = [None] * len(self.marks)
        times = [1000 * arrival for arrival in self.arrivals]
        columns = {
            "key": pa.array([*self.keys, *nulls], pa.binary()),
            "value": pa.array([*self.values, *nulls], pa.binary()),
            "headers": self._headers(),
            "partition": pa.array([self.partition] * (len(self.keys) + len(nulls)), pa.int32()),
            "offset": pa.array([*self.numbers, *nulls], pa.int64()),
            "timestamp": pa.array([*times, *nulls], pa.timestamp("us", tz="UTC")),
            "mark": pa.array([None] * len(self.keys) + [json.dumps(vars(mark)) for mark in self.marks], pa.string()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _headers(self) -> pa.Array:
        """Where the record lies in Kinesis, for people: a record's offset here is another number."""
        import pyarrow as pa

        names, values, begins = [], [], [0]
        for sequence, index in self.sequences:
            names.append(SEQUENCE_HEADER)
            values.append(sequence.encode())
            if index is not None:
                names.append(SUB_SEQUENCE_HEADER)
                values.append(str(index).encode())
            begins.append(len(names))
        begins += [len(names)] * len(self.marks)
        pairs = pa.StructArray.from_arrays(
            [pa.array(names, pa.string()), pa.array(values, pa.binary())], ["key", "value"]
        )
        return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), pairs)
