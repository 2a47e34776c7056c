"""Complete records as objects: written whole beside the topics, then moved to their places."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.sdk import Folder
from headrace_aws.s3.config import S3SinkConfig
from headrace_aws.s3.formats import OBJECT, find_kinds, name_ending, write_files
from headrace_aws.s3.records import ENCODED, OFFSET, ORDER, PARTITION, TOMBSTONE, TOPIC, VALUE
from headrace_aws.s3.rotation import Span, literal_rows
from headrace_aws.s3.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGED, OBJECTS = "staged", "objects"
_PARALLEL_MOVES = 8
_START, _END = "span_start", "span_end"


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
            write_files(rows.sortWithinPartitions(*OBJECT, OFFSET, ORDER), kind, f"{work.path}/{folder}", config)
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
    from pyspark.sql import Window, functions as F

    folders = [
        f"{work.path}/{STAGED}/{name}"
        for name, rows in state.staged.items()
        if any(rows.schema == s.schema and rows.overlaps(s.topic, s.partition, s.start, s.end) for s in spans)
    ]
    schema = f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint, {_START} bigint, {_END} bigint, {OBJECT[0]} int"
    starts = [[s.topic, s.partition, s.start, s.start, s.end, topics.index(s.topic)] for s in spans]
    names = [field.split()[0] for field in schema.split(", ")]
    marks = literal_rows(session, schema, [dict(zip(names, values, strict=True)) for values in starts])
    until_now = Window.partitionBy(TOPIC, PARTITION).orderBy(OFFSET)
    found = session.read.parquet(*folders).join(F.broadcast(marks), [TOPIC, PARTITION, OFFSET], "left")
    for name in (_START, _END, OBJECT[0]):
        found = found.withColumn(name, F.last(name, ignorenulls=True).over(until_now))
    of_object = Window.partitionBy(TOPIC, PARTITION, _START, ENCODED)
    first = F.min(OFFSET).over(of_object).cast("string")
    return found.where(F.col(OFFSET) <= F.col(_END)).withColumns(
        {OBJECT[1]: F.col(ENCODED), OBJECT[2]: F.concat(F.col(PARTITION).cast("string"), F.lit("+"), first)}
    )


def _place(file: str, topics: Sequence[str], kind: str, config: S3SinkConfig) -> str:
    """Where a file that Spark wrote becomes an object, from the sink's ``path`` on."""
    topic, encoded, number = (unquote(part.partition("=")[2]) for part in file.split("/")[:-1])
    partition, _, first = number.partition("+")
    name = f"{topics[int(topic)]}+{partition}+{int(first):010d}{name_ending(kind, config)}"
    return f"{config.topics_dir}/{topics[int(topic)]}/{encoded}/{name}"
