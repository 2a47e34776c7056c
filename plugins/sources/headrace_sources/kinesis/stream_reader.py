"""Reader of several streams on executors: a stream that is slow, or fails, does not affect the others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import HeadraceError
from headrace_sources.kinesis.kinesis_errors import error_to_json
from headrace_sources.kinesis.kinesis_stream import KinesisStream, keep_client
from headrace_sources.kinesis.shard_reader import Reading, Rows, read_pages

if TYPE_CHECKING:
    import pyarrow as pa

#: Streams that a task reads at the same time, each at most one page ahead of Spark.
_STREAMS_AT_ONCE = 8


@dataclass(frozen=True)
class StreamReadings:
    """Readings of one stream in one task."""

    stream: KinesisStream
    readings: Sequence[Reading]

    def read(self) -> Iterator[Rows]:
        """Yield the pages, and a mark with the error if the stream fails."""
        try:
            yield from read_pages(self.stream, keep_client(self.stream.service), self.readings)
        except HeadraceError as error:
            mark = json.dumps({"error": error_to_json(error)})
            yield Rows(0, reading=self.readings[0].number, marks=[mark])


def read_streams(
    tasks: Sequence[Sequence[StreamReadings]],
    batches: Iterator[pa.RecordBatch],
    nonce: int,  # noqa: ARG001 - Spark reuses the cache of an equal plan, so each read needs a different plan
) -> Iterator[pa.RecordBatch]:
    """Read the tasks whose numbers are in ``batches`` (for ``mapInArrow``). ``nonce`` is unique per read."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for rows in read_by_arrival([part.read() for part in tasks[number]]):
                yield rows.to_batch()


def read_by_arrival(streams: Sequence[Iterator[Rows]]) -> Iterator[Rows]:
    """Yield the pages of several streams as they arrive. Each waits for its next page in a thread."""
    waiting = deque(streams)
    pending: dict[Future[Rows | None], Iterator[Rows]] = {}
    arrived: list[Rows] = []
    with ThreadPoolExecutor(_STREAMS_AT_ONCE) as pool:
        while waiting or pending:
            while waiting and len(pending) < _STREAMS_AT_ONCE:
                pages = waiting.popleft()
                pending[pool.submit(next, pages, None)] = pages
            # The next pages are requested already.
            yield from arrived
            completed, _ = wait(pending, return_when=FIRST_COMPLETED)
            arrived.clear()
            for future in completed:
                pages = pending.pop(future)
                if (rows := future.result()) is not None:
                    arrived.append(rows)
                    waiting.append(pages)
