"""Writer of Avro files in the layout of the Confluent S3 sink. The same records give the same bytes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

_SYNC_INTERVAL = 16_000  # bytes, the default of Avro's own writers


class SinkFile(NamedTuple):
    """Written file."""

    path: Path
    records: int
    content: bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def write_topic(
    root: Path,
    topic: str,
    schema: dict[str, Any],
    records: Iterable[Any],
    *,
    offset: int,
    flush: int,
    codec: str,
    sync_interval: int = _SYNC_INTERVAL,
) -> Iterator[SinkFile]:
    """Write files of `flush` records to ROOT/topics/TOPIC/partition=0, starting at `offset`. Each iteration writes one file."""
    folder = root / "topics" / topic / "partition=0"
    folder.mkdir(parents=True, exist_ok=True)
    parsed = fastavro.parse_schema(schema)
    for chunk in _chunks(records, flush):
        path = folder / f"{topic}+0+{offset:010d}.avro"
        marker = hashlib.sha256(path.name.encode()).digest()[:16]
        with path.open("wb") as out:
            fastavro.writer(out, parsed, chunk, codec=codec, sync_interval=sync_interval, sync_marker=marker)
        yield SinkFile(path, len(chunk), path.read_bytes())
        offset += len(chunk)


def _chunks(records: Iterable[Any], size: int) -> Iterator[Sequence[Any]]:
    rest = iter(records)
    while chunk := list(islice(rest, size)):
        yield chunk
