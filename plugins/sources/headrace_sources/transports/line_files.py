"""Files with one record per line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from headrace.sdk import Events, Format, RecordReader, SourceContext, Subject, events as E
from headrace.sdk.events import Part
from headrace_sources.transports.file_listing import group_by_offset_names
from headrace_sources.transports.file_places import place_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    #: Returns the lines of a topic's files.
    Lines = Callable[[SparkSession], DataFrame]


def open_line_files(
    record_format: Format, context: SourceContext, topic: str, files: Sequence[str], options: Mapping[str, str]
) -> Events | None:
    """Return a topic's events; None if its files have no records. ``options``: options of Spark's text reader."""
    lines = partial(read_lines, files=files, options=options, limit=context.max_message_bytes)
    frame = lines(context.spark)
    reader = record_format.open(context.spark, frame, E.VALUE, Subject(topic, "value"), context.schemas)
    if not reader.schema.fields and frame.isEmpty():
        return None
    narrow = partial(_open_part, record_format, context, topic, lines, reader)
    return replace(_make_events(topic, lines, reader), types=tuple(reader.types), narrow=narrow)


def _open_part(
    record_format: Format, context: SourceContext, topic: str, lines: Lines, whole: RecordReader, part: Part
) -> Events:
    """Return the events of a part of a topic. ``whole``: reader of the topic's records."""
    from pyspark.sql import functions as F

    def read_part(select: Callable[[DataFrame], DataFrame], session: SparkSession) -> DataFrame:
        frame = select(whole.decode(lines(session), E.VALUE, part.schema, E.ERROR))
        return frame.drop(E.ERROR).withColumn(E.VALUE, F.col(E.RAW))

    with context.schemas.hold(topic):
        frame = read_part(lambda frame: frame.where(part.condition), context.spark)
        reader = record_format.open(context.spark, frame, E.VALUE, part.subject(topic, "value"), context.schemas)
    return _make_events(topic, partial(read_part, part.select), reader)


def _make_events(topic: str, lines: Lines, reader: RecordReader) -> Events:
    load, locate_errors = partial(_load, lines, reader), partial(E.locate_errors, reader)
    return Events(topic, reader.schema, load, locate_errors=locate_errors, is_inferred=reader.is_inferred)


def _load(lines: Lines, reader: RecordReader, session: SparkSession, wanted: StructType) -> DataFrame:
    return E.reject_large(reader.decode(lines(session), E.VALUE, wanted, E.ERROR))


def read_lines(session: SparkSession, files: Sequence[str], options: Mapping[str, str], limit: int | None) -> DataFrame:
    """Return the lines that are not blank, with their places. VALUE and RAW are the bytes; lines above ``limit`` are marked."""
    from pyspark.sql import functions as F

    frames = []
    for has_offsets, group in group_by_offset_names(files):
        frame = session.read.format("text").options(**options).load(group)
        places, is_large = place_columns(has_offsets=has_offsets), F.col(E.TOO_LARGE)
        line, raw = E.take_body("value").cast("binary"), E.keep_bytes("value")
        frame = E.mark_large(frame.select("value", *places), ("value",), limit)
        names = [name for name in frame.columns if name != "value"]
        frame = frame.select(line.alias(E.VALUE), *names, raw.alias(E.RAW))
        frames.append(frame.where(is_large | F.col(E.VALUE).cast("string").rlike(r"\S")))
    return reduce(lambda a, b: a.unionByName(b), frames)
