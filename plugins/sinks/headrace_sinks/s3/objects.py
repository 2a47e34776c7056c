"""Objects of complete records: written in a work folder, then moved to the topics."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace.sdk.storage import Folder
from headrace_sinks.s3.object_formats import OBJECT, find_kinds, name_ending, write_files
from headrace_sinks.s3.object_state import State
from headrace_sinks.s3.path_limits import name_object
from headrace_sinks.s3.pending_records import ENCODED, OFFSET, ORDER, PARTITION, TOMBSTONE, TOPIC, VALUE
from headrace_sinks.s3.rotation import Span, literal_rows
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

STAGED, OBJECTS = "staged", "objects"
_PARALLEL_MOVES = 8
_START, _END, _STRETCH, _FIRST = "span_start", "span_end", "stretch", "first"


def write_objects(
    session: SparkSession,
    work: Folder,
    name: str,
    spans: Sequence[Span],
    state: State,
    config: S3SinkConfig,
) -> list[tuple[str, str]]:
    """Write the objects of complete records into a folder of ``work``; return the source and target of each move."""
    from pyspark.sql import functions as F

    moves: list[tuple[str, str]] = []
    for schema in sorted({span.schema for span in spans}):
        part = [span for span in spans if span.schema == schema]
        records, objects = _number_objects(_read_spans(session, work, part, state))
        for kind in find_kinds(records, config):
            folder = f"{OBJECTS}/{name}/{schema}/{kind}"
            rows = records.where(~F.col(TOMBSTONE)) if kind == VALUE else records
            rows = rows.repartition(OBJECT).sortWithinPartitions(OBJECT, OFFSET, ORDER)
            write_files(rows, kind, f"{work.path}/{folder}", config)
            files = work.folder(folder).list_files()
            target = partial(_target, objects=objects, kind=kind, config=config, is_in_store=work.is_in_store)
            moves += [(f"{folder}/{file}", target(file)) for file in files]
    assert len({target for _, target in moves}) == len(moves), "each object is one file"
    return moves


def check_targets(work: Folder, root: Folder, moves: Sequence[tuple[str, str]]) -> None:
    """Raise ConfigError if the target of a new object exists: another pipeline or an earlier checkpoint wrote it.

    The new files are deleted: the state does not refer to them yet.
    """
    targets = [target for _, target in moves]
    with _open_pool() as pool:
        exist = pool.map(lambda target: root.folder(target).exists(), targets)
        if existing := [target for target, exists in zip(targets, exist, strict=True) if exists]:
            work.delete(OBJECTS)
            raise _exists_error(root, existing)


def move_objects(work: Folder, root: Folder, moves: Sequence[tuple[str, str]]) -> None:
    """Move complete files to their targets. Files that were moved before a crash are left out.

    ConfigError if another pipeline has written a target since ``check_targets``.
    """

    def move(paths: tuple[str, str]) -> None:
        source, target = paths
        if not work.folder(source).exists():
            return
        try:
            work.move(source, f"{root.path}/{target}")
        except FileExistsError:
            # An object store copies a file and then deletes the old one. A crash in between leaves both.
            if not work.has_content_of(source, f"{root.path}/{target}"):
                raise _exists_error(root, [target]) from None
            work.delete(source)

    with _open_pool() as pool:
        list(pool.map(move, moves))


def _open_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_PARALLEL_MOVES, thread_name_prefix="headrace-s3")


def _exists_error(root: Folder, targets: Sequence[str]) -> ConfigError:
    others = f", and {len(targets) - 1} more" if len(targets) > 1 else ""
    return ConfigError(
        f"the object exists{others}: another pipeline or an earlier checkpoint wrote it, and it is not replaced",
        where=f"sink s3, {root.path}/{targets[0]}",
        fix="give each pipeline its own `topics.dir`; to write these records again, first move or delete the topic's objects",
    )


def _read_spans(session: SparkSession, work: Folder, spans: Sequence[Span], state: State) -> DataFrame:
    """Read the staged records of complete spans, with the start of their span."""
    from pyspark.sql import functions as F

    folders = [
        f"{work.path}/{STAGED}/{name}"
        for name, rows in state.staged.items()
        if any(rows.schema == s.schema and rows.overlaps(s.topic, s.partition, s.start, s.end) for s in spans)
    ]
    # Rows join the spans of their stretch of offsets. There are about as many stretches as spans.
    stretch = max(1, sum(span.end - span.start + 1 for span in spans) // len(spans))
    found = session.read.parquet(*folders).withColumn(_STRETCH, F.expr(f"{OFFSET} div {stretch}"))
    of_span = F.col(OFFSET).between(F.col(_START), F.col(_END))
    near = F.broadcast(_list_stretches(session, spans, stretch))
    return found.join(near, [TOPIC, PARTITION, _STRETCH]).where(of_span)


def _list_stretches(session: SparkSession, spans: Sequence[Span], stretch: int) -> DataFrame:
    """List each span once for every stretch of offsets that it overlaps."""
    rows = [
        {TOPIC: span.topic, PARTITION: span.partition, _STRETCH: number, _START: span.start, _END: span.end}
        for span in spans
        for number in range(span.start // stretch, span.end // stretch + 1)
    ]
    types = ("string", "int", "bigint", "bigint", "bigint")
    return literal_rows(session, ", ".join(map(" ".join, zip(rows[0], types, strict=True))), rows)


def _number_objects(records: DataFrame) -> tuple[DataFrame, list[Row]]:
    """Add the number of each record's object; return the objects, each with the offset of its first record, by number."""
    from pyspark.sql import functions as F

    key = [TOPIC, PARTITION, _START, ENCODED]
    objects = sorted(records.groupBy(*key).agg(F.min(OFFSET).alias(_FIRST)).collect())
    rows = [{**{name: row[name] for name in key}, OBJECT: number} for number, row in enumerate(objects)]
    schema = f"{TOPIC} string, {PARTITION} int, {_START} bigint, {ENCODED} string, {OBJECT} int"
    return records.join(F.broadcast(literal_rows(records.sparkSession, schema, rows)), key), objects


def _target(file: str, *, objects: Sequence[Row], kind: str, config: S3SinkConfig, is_in_store: bool) -> str:
    """Return the name of the object for a file that Spark wrote, relative to the sink's ``path``."""
    found = objects[int(file.partition("/")[0].partition("=")[2])]
    topic = found[TOPIC]
    rest = f"+{found[PARTITION]}+{found[_FIRST]:010d}{name_ending(kind, config)}"
    name = name_object(topic, rest, is_in_store=is_in_store)
    return f"{config.topics_prefix}{topic}/{found[ENCODED]}/{name}"
