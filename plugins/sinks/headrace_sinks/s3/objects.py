"""Complete records as objects: written whole beside the topics, then moved to their places."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.sdk.storage import Folder
from headrace_sinks.s3.object_formats import (
    FIRST,
    FOLDER,
    NUMBER,
    OBJECT,
    TOPIC_NUMBER,
    find_kinds,
    name_ending,
    write_files,
)
from headrace_sinks.s3.object_state import State
from headrace_sinks.s3.pending_records import ENCODED, OFFSET, ORDER, PARTITION, TOMBSTONE, TOPIC, VALUE
from headrace_sinks.s3.rotation import Span, literal_rows
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGED, OBJECTS = "staged", "objects"
_PARALLEL_MOVES = 8
_START, _END, _STRETCH = "span_start", "span_end", "stretch"


def write_objects(
    session: SparkSession, work: Folder, name: str, spans: Sequence[Span], state: State, config: S3SinkConfig
) -> list[tuple[str, str]]:
    """Writes the objects of complete records into a folder of ``work``; from where to where each is to be moved."""
    from pyspark.sql import functions as F

    moves: list[tuple[str, str]] = []
    topics = sorted({span.topic for span in spans})
    for schema in sorted({span.schema for span in spans}):
        part = [span for span in spans if span.schema == schema]
        records = _read_spans(session, work, part, topics, state)
        for kind in find_kinds(records, config):
            folder = f"{OBJECTS}/{name}/{schema}/{kind}"
            rows = records.where(~F.col(TOMBSTONE)) if kind == VALUE else records
            rows = rows.repartition(*OBJECT).sortWithinPartitions(*OBJECT, OFFSET, ORDER)
            write_files(rows, kind, f"{work.path}/{folder}", config)
            files = work.folder(folder).list_files()
            moves += [(f"{folder}/{file}", _place(file, topics, kind, config)) for file in files]
    assert len({target for _, target in moves}) == len(moves), "an object is one file"
    return moves


def move_objects(work: Folder, root: Folder, moves: Sequence[tuple[str, str]]) -> None:
    """Moves complete files to their places. Those that were moved before are left: it may be called again after a crash."""

    def move(one: tuple[str, str]) -> None:
        if work.folder(one[0]).exists():
            root.delete(one[1])
            work.move(one[0], f"{root.path}/{one[1]}")

    with ThreadPoolExecutor(_PARALLEL_MOVES, thread_name_prefix="headrace-s3") as pool:
        list(pool.map(move, moves))


def _read_spans(
    session: SparkSession, work: Folder, spans: Sequence[Span], topics: Sequence[str], state: State
) -> DataFrame:
    """The staged records of complete spans, each with its OBJECT columns."""
    from pyspark.sql import functions as F

    folders = [
        f"{work.path}/{STAGED}/{name}"
        for name, rows in state.staged.items()
        if any(rows.schema == s.schema and rows.overlaps(s.topic, s.partition, s.start, s.end) for s in spans)
    ]
    # Rows look for their span among those of their stretch of offsets, of which there are about as many as spans.
    stretch = max(1, sum(span.end - span.start + 1 for span in spans) // len(spans))
    found = session.read.parquet(*folders).withColumn(_STRETCH, F.expr(f"{OFFSET} div {stretch}"))
    of_span = F.col(OFFSET).between(F.col(_START), F.col(_END))
    near = F.broadcast(_list_stretches(session, spans, topics, stretch))
    found = found.join(near, [TOPIC, PARTITION, _STRETCH]).where(of_span)
    key = [TOPIC_NUMBER, PARTITION, _START, ENCODED]
    firsts = found.groupBy(*key).agg(F.min(OFFSET).alias(FIRST))
    return found.join(F.broadcast(firsts), key).withColumns({NUMBER: F.col(PARTITION), FOLDER: F.col(ENCODED)})


def _list_stretches(session: SparkSession, spans: Sequence[Span], topics: Sequence[str], stretch: int) -> DataFrame:
    """Each span once for every stretch of offsets that it is in."""
    rows = [
        {
            TOPIC: span.topic,
            PARTITION: span.partition,
            _STRETCH: number,
            _START: span.start,
            _END: span.end,
            TOPIC_NUMBER: topics.index(span.topic),
        }
        for span in spans
        for number in range(span.start // stretch, span.end // stretch + 1)
    ]
    types = ("string", "int", "bigint", "bigint", "bigint", "int")
    return literal_rows(session, ", ".join(map(" ".join, zip(rows[0], types, strict=True))), rows)


def _place(file: str, topics: Sequence[str], kind: str, config: S3SinkConfig) -> str:
    """Where a file that Spark wrote becomes an object, from the sink's ``path`` on."""
    first, partition, number, encoded = (unquote(part.partition("=")[2]) for part in file.split("/")[:-1])
    topic = topics[int(number)]
    name = f"{topic}+{partition}+{int(first):010d}{name_ending(kind, config)}"
    return f"{config.topics_dir}/{topic}/{encoded}/{name}"
