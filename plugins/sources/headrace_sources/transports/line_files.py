"""Files with one record per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import Events, Format, SourceContext, Subject, events as E
from headrace_sources.transports.file_listing import group_by_offset_names
from headrace_sources.transports.file_places import place_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def open_line_files(
    record_format: Format, context: SourceContext, topic: str, files: Sequence[str], options: Mapping[str, str]
) -> Events | None:
    """Return a topic's events; None if its files have no records. ``options``: options of Spark's text reader."""
    limit = context.max_message_bytes
    lines = read_lines(context.spark, files, options, limit)
    reader = record_format.open(context.spark, lines, E.VALUE, Subject(topic, "value"), context.schemas)

    def load(session: SparkSession, wanted: StructType) -> DataFrame:
        return E.reject_large(reader.decode(read_lines(session, files, options, limit), E.VALUE, wanted, E.ERROR))

    return None if not reader.schema.fields and lines.isEmpty() else Events(topic, reader.schema, load)


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
