"""Records for the sink ``s3``, the objects of Confluent's connector for them, and a reader of objects without Spark."""

from __future__ import annotations

import gzip
import io
import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq

from headrace.sdk import changes as C
from headrace.sdk.sink import Batch, Table, WriteResult
from headrace_sinks.s3.s3_sink import S3Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "shop.public.orders"
ROW = "id int, name string"
_HEADERS = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True)
class Record:
    """Record of a topic; without a row a tombstone. ``time``: milliseconds since the epoch."""

    offset: int
    row: Mapping[str, Any] | None
    partition: int = 0
    time: int | None = 0
    key: Mapping[str, Any] | None = None
    headers: Sequence[tuple[str, bytes]] | None = None
    raw: bytes | None = None
    topic: str = TOPIC


def order(offset: int, name: str | None = "a", **more: Any) -> Record:
    """Return an order whose ID is its offset."""
    return Record(offset, {"id": offset, "name": name}, **more)


@dataclass
class Orders:
    """Table of the sink, written in batches as by the engine."""

    folder: Path
    session: SparkSession
    options: dict[str, Any]
    schema: str = ROW
    pipeline: str = "checkpoint"
    batch: int = field(default=-1)

    @property
    def sink(self) -> S3Sink:
        return S3Sink({"path": str(self.folder), **self.options})

    def write(self, *records: Record) -> WriteResult:
        """Write the next batch; a failed batch is repeated with its ID."""
        result = self.write_as(self.batch + 1, records)
        self.batch += 1
        return result

    def write_as(self, batch: int, records: Iterable[Record], digest: str = "") -> WriteResult:
        sink = self.sink
        rows = frame(self.session, self.schema, records, sink)
        return sink.write(Table("orders"), rows, Batch(self.pipeline, batch, "append", digest=digest))

    def on_idle(self) -> float | None:
        return self.sink.on_idle(self.session, self.pipeline, lambda table: True)

    def read_back(self) -> DataFrame:
        return self.sink.read_back(self.session, Table("orders"))

    def objects(self) -> dict[str, list[Any]]:
        """Return the content of each object by its name below ``topics``."""
        return read_objects(self.folder)


def frame(session: SparkSession, schema: str, records: Iterable[Record], sink: S3Sink) -> DataFrame:
    """Return rows as the engine passes them to the sink. The plan has them as JSON, which needs no Python process."""
    from pyspark.sql import functions as F

    rows = [
        {
            "row": record.row or {},
            C.POSITION: f"{record.offset:010d}",
            C.DELETED: False,
            C.TOPIC: record.topic,
            C.PARTITION: record.partition,
            C.OFFSET: record.offset,
            C.TIMESTAMP: record.time,
            C.TOMBSTONE: record.row is None,
            C.KEY: record.key,
            C.RAW_KEY: _base64(json.dumps(record.key).encode() if record.key else None),
            C.RAW: _base64(record.raw),
            C.HEADERS: [{"key": k, "value": _base64(v)} for k, v in record.headers or ()] or None,
        }
        for record in records
    ]
    types = (
        f"row struct<{schema}>, {C.POSITION} string, {C.DELETED} boolean, {C.TOPIC} string, {C.PARTITION} int, "
        f"{C.OFFSET} bigint, {C.TIMESTAMP} bigint, {C.TOMBSTONE} boolean, {C.KEY} struct<id: int>, {C.RAW_KEY} binary, "
        f"{C.RAW} binary, {C.HEADERS} {_HEADERS}"
    )
    all_columns = session.range(0, 1, 1, 1).select(
        F.inline(F.from_json(F.lit(json.dumps(rows)), f"array<struct<{types}>>"))
    )
    columns = [C.POSITION, C.DELETED, *(c for c in sink.record_columns() if c != C.TIMESTAMP)]
    times = [F.timestamp_millis(C.TIMESTAMP).alias(C.TIMESTAMP)] if C.TIMESTAMP in sink.record_columns() else []
    return all_columns.select("row.*", *columns, *times)


def read_objects(folder: Path, topics: str = "topics") -> dict[str, list[Any]]:
    """Return the content of each object by its name below ``topics``."""
    root = folder / topics
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(root)): read_object(path) for path in files}


def read_object(path: Path) -> list[Any]:
    """Return the content of an object by its extension."""
    data = path.read_bytes()
    data, name = (gzip.decompress(data), path.name[:-3]) if path.name.endswith(".gz") else (data, path.name)
    if name.endswith(".avro"):
        return list(fastavro.reader(io.BytesIO(data)))
    if name.endswith(".parquet"):
        rows: list[Any] = pq.read_table(io.BytesIO(data)).to_pylist()
        return rows
    if name.endswith(".json"):
        return [json.loads(line) for line in data.splitlines()]
    return data.split(b"\n")[:-1]


def split_like_connector(
    records: Iterable[Record], flush_size: int, rotate_interval: int = -1, encode: Any = None, ending: str = ".avro"
) -> dict[str, list[Any]]:
    """Return the objects that Confluent's S3 connector writes for these records.

    ``encode`` returns the encoded partition of a record.
    """
    done: dict[str, list[Any]] = {}
    parts: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        parts[record.topic, record.partition].append(record)
    for (topic, partition), several in parts.items():
        files: dict[str, list[Record]] = {}
        count, base, current = 0, 0, ""

        def commit(files: dict[str, list[Record]] = files, topic: str = topic, partition: int = partition) -> None:
            for folder, kept in files.items():
                name = f"{topic}/{folder}/{topic}+{partition}+{kept[0].offset:010d}{ending}"
                done[name] = [record.row for record in kept]
            files.clear()

        for record in sorted(several, key=lambda r: r.offset):
            encoded = encode(record) if encode else f"partition={partition}"
            time = record.time or 0
            if count and rotate_interval > 0 and (time - base >= rotate_interval or encoded != current):
                commit()
                count = 0
            base = time if not count else base
            current = encoded
            files.setdefault(encoded, []).append(record)
            count += 1
            if count >= flush_size:
                commit()
                count = 0
    return done


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
