"""Reader of shards on executors: pages become Arrow batches, from several shards in turn or in order of arrival."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, LoginError, RetriableError
from headrace_sources.kinesis.kinesis_errors import carry_errors
from headrace_sources.kinesis.kinesis_stream import KinesisStream, keep_client
from headrace_sources.kinesis.kpl_aggregation import split
from headrace_sources.kinesis.shard_pages import open_pages
from headrace_sources.kinesis.shard_positions import ALL_HASH_KEYS, HashKeys, ShardPosition, next_number, partition_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Spark schema of the batches. The last row of a shard has a ``mark`` and no record. ``reading``: its number in the batch.
SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset bigint, "
    "timestamp timestamp, reading int, mark string"
)
SEQUENCE_HEADER, SUB_SEQUENCE_HEADER = "kinesis.sequence.number", "kinesis.sub.sequence.number"
#: Bytes of a shard after which a range ends: half a minute at 2 MB/s.
MAX_BYTES = 64 << 20
#: Longest pause before a retry for a busy shard, and the seconds until its reader fails.
_MAX_PAUSE, _TIMEOUT = 5.0, 60.0


@dataclass(frozen=True)
class Reading:
    """Part of a shard to read: up to and including the record ``end``, or all available records within limits."""

    shard: str
    begin: ShardPosition
    end: str | None = None
    #: Without ``end``: arrival bound in milliseconds (exclusive), and the approximate maximum of records.
    until: int | None = None
    most_records: int = 1 << 62
    most_bytes: int = MAX_BYTES
    #: Without ``end``: seconds after which the reading ends, so that other streams do not wait. A shard that only fails then has an error.
    seconds: float | None = None
    #: Iterator of an earlier reading that ended without a record.
    resume: str | None = None
    #: Number of the reading in its batch.
    number: int = 0
    #: With ``end``: continue if records expired.
    is_lenient: bool = False
    #: Hash keys of the shard. Aggregated records outside of them are skipped.
    hash_keys: HashKeys = ALL_HASH_KEYS


@dataclass(frozen=True)
class Mark:
    """End of the read of a shard."""

    shard: str
    sequence: str | None
    number: int
    #: The shard is closed and read to its end.
    is_done: bool = False
    #: No further record was available before the bound.
    is_at_end: bool = False
    #: Lag behind the newest record in milliseconds, as reported by Kinesis.
    behind: int = 0
    #: Records and bytes that were read.
    records: int = 0
    bytes: int = 0
    #: Iterator from which the next reading resumes, if no record tells its place.
    resume: str | None = None


def read_shards(
    stream: KinesisStream,
    tasks: Sequence[Sequence[Reading]],
    batches: Iterator[pa.RecordBatch],
    nonce: int,  # noqa: ARG001 - Spark reuses the cache of an equal plan, so each read needs a different plan
) -> Iterator[pa.RecordBatch]:
    """Read the shards of the tasks whose numbers are in ``batches`` (for ``mapInArrow``). ``nonce`` is unique per read."""
    with carry_errors():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_readings(stream, keep_client(stream.service), tasks[number])


def read_readings(stream: KinesisStream, client: Any, readings: Sequence[Reading]) -> Iterator[pa.RecordBatch]:
    """Yield the pages of several shards. A busy shard does not delay the others."""
    pages = read_pages(stream, client, readings)
    for rows in pages if stream.consumer else _read_ahead(pages):
        yield rows.to_batch()


def read_pages(stream: KinesisStream, client: Any, readings: Sequence[Reading]) -> Iterator[Rows]:
    """Yield the pages of several shards as rows."""
    readers = [ShardReader(stream, client, reading) for reading in readings]
    try:
        yield from (_read_by_arrival if stream.consumer else _read_in_turn)(readers)
    finally:
        for reader in readers:
            reader.close()


def _read_in_turn(readers: Sequence[ShardReader]) -> Iterator[Rows]:
    """Yield a page of each shard in turn, because a polled shard responds immediately."""
    readers = [*readers]
    while readers:
        reader = min(readers, key=lambda reader: reader.due)
        yield reader.read_page()
        if reader.is_finished:
            readers.remove(reader)


def _read_ahead(pages: Iterator[Rows]) -> Iterator[Rows]:
    """Fetch the next page while the caller processes the current one."""
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(next, pages, None)
        while (page := pending.result()) is not None:
            pending = pool.submit(next, pages, None)
            yield page


def _read_by_arrival(readers: Sequence[ShardReader]) -> Iterator[Rows]:
    """Wait for each shard in a thread, because shards push records. No shard is more than one page ahead of the caller."""
    with ThreadPoolExecutor(max(1, len(readers))) as pool:
        waiting = {pool.submit(reader.read_page): reader for reader in readers}
        while waiting:
            completed, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for page in completed:
                reader = waiting.pop(page)
                yield page.result()
                if not reader.is_finished:
                    waiting[pool.submit(reader.read_page)] = reader


class ShardReader:
    """Reader of one shard, page by page."""

    def __init__(self, stream: KinesisStream, client: Any, reading: Reading) -> None:
        self._stream, self._reading = stream, reading
        self._pages = open_pages(stream, client, reading.shard, reading.resume)
        self._sequence, self._number = reading.begin.sequence, reading.begin.number
        self._records = self._bytes = 0
        #: Time of the first of the last failed requests.
        self._failing_since: float | None = None
        self._pause = self._pages.pause
        #: Earliest time of the next request.
        self.due = time.monotonic()
        self._ends_at = self.due + (math.inf if reading.seconds is None else reading.seconds)
        self._timeout = min(_TIMEOUT, _TIMEOUT if reading.seconds is None else reading.seconds)
        self.is_finished = False

    def read_page(self) -> Rows:
        """Wait until the next page is due and return its records; no records if the shard is busy."""
        time.sleep(max(0.0, self.due - time.monotonic()))
        rows = Rows(partition_of(self._reading.shard), self._reading.hash_keys, self._reading.number)
        page = self._fetch()
        if page is not None and (mark := self._take(page, rows)):
            self.close()
            self._check_end()
            self.is_finished = True
            rows.marks.append(json.dumps(vars(mark)))
        return rows

    def close(self) -> None:
        """Release the shard."""
        self._pages.close()

    def _fetch(self) -> dict[str, Any] | None:
        """Return a page; None if the shard is busy or the iterator has expired."""
        requested = time.monotonic()
        try:
            page = self._pages.read(
                replace(self._reading.begin, sequence=self._sequence), self._reading.most_records - self._records
            )
        except Exception as error:
            explained = self._stream.explain(error, self._pages.operation)
            now = time.monotonic()
            # Time in which other shards are read does not count.
            self._failing_since = requested if self._failing_since is None else self._failing_since
            if not isinstance(explained, RetriableError) or now - self._failing_since > self._timeout:
                if isinstance(explained, LoginError):
                    keep_client.cache_clear()  # The next client reads the current credentials.
                raise explained.at(self._stream.where) from error
            self.due, self._pause = now + self._pause, min(2 * self._pause, _MAX_PAUSE)
            return None
        self._failing_since, self._pause = None, self._pages.pause
        self.due = requested + self._pages.gap
        return page

    def _take(self, page: dict[str, Any], rows: Rows) -> Mark | None:
        """Add the records of a page up to the limits; return the mark after the last page."""
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
        return self._end_after(page.get("NextShardIterator"), behind)

    def _end_after(self, iterator: str | None, behind: int) -> Mark | None:
        """Return the mark after a whole page; None if another page follows. ``iterator``: that of the next page."""
        if iterator is None:
            return self._mark(is_done=True, is_at_end=True)
        # An empty page is not the end: the next record can be hours later.
        if not behind:
            return self._mark(is_at_end=True)
        if self._reading.end is not None or time.monotonic() < self._ends_at:
            return None
        return self._mark(behind=behind, resume=None if self._records else iterator)

    @property
    def _is_full(self) -> bool:
        return self._records >= self._reading.most_records or self._bytes >= self._reading.most_bytes

    def _mark(self, **how: Any) -> Mark:
        place = (self._reading.shard, self._sequence, self._number)
        return Mark(*place, records=self._records, bytes=self._bytes, **how)

    def _check_end(self) -> None:
        """Raise DataError if the last record of a range has expired."""
        reading = self._reading
        if reading.end in (None, self._sequence) or reading.is_lenient:
            return
        raise DataError(
            f"unread records of {reading.shard} up to {reading.end} are lost",
            where=self._stream.where,
            fix="start with a new checkpoint, or set `fail.on.data.loss: false` to continue with the oldest record",
        )


def _arrival(record: dict[str, Any]) -> int:
    """Return the arrival of a record in milliseconds."""
    seconds: float = record["ApproximateArrivalTimestamp"]
    return round(seconds * 1000)


@dataclass
class Rows:
    """Rows of a page, column by column."""

    partition: int
    #: Hash keys of the shard.
    hash_keys: HashKeys = ALL_HASH_KEYS
    #: Number of the reading in its batch.
    reading: int = 0
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    #: Sequence number, and the index in an aggregated record.
    sequences: list[tuple[str, int | None]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    #: JSON of marks.
    marks: list[str] = field(default_factory=list)

    def add(self, record: dict[str, Any], arrival: int, number: int) -> int:
        """Add a plain or aggregated record after ``number``; return the number of the last row."""
        for index, key, data in split(record["PartitionKey"], record["Data"], self.hash_keys):
            number = next_number(number, arrival)
            self.keys.append(key.encode())
            # Kinesis has no null value; a tombstone is an empty record.
            self.values.append(data or None)
            self.sequences.append((record["SequenceNumber"], index))
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
            "reading": pa.array([self.reading] * (len(self.keys) + len(nulls)), pa.int32()),
            "mark": pa.array([None] * len(self.keys) + self.marks, pa.string()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _headers(self) -> pa.Array:
        """Return headers with the sequence numbers of Kinesis, which differ from the offsets."""
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
