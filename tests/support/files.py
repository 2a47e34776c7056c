"""Files of a folder read by the files source, without a stream."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.sdk.events import OFFSET, PLACE, VALUE, Events
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def events_of(
    spark: SparkSession,
    folder: Path,
    kind: str,
    log: SchemaLog | None = None,
    files: Iterable[Path] | None = None,
    **options: Any,
) -> list[Events]:
    """Return the events in a batch of the folder's files, or of named files; raise the errors of its topics."""
    return batch_of(spark, FilesSource(path=str(folder), format=kind, **options), folder, log, files)


def batch_of(
    spark: SparkSession,
    source: FilesSource,
    folder: Path,
    log: SchemaLog | None = None,
    files: Iterable[Path] | None = None,
) -> list[Events]:
    """Return the events of a batch with another source."""
    paths = [path for path in (files or sorted(folder.rglob("*"))) if not path.is_dir()]
    batch = spark.createDataFrame([(f"file:{path}",) for path in paths], "path string")
    found = source.events(SourceContext(spark, log or SchemaLog()), batch)
    for error in [events.error for events in found if events.error]:
        raise error
    return found


def in_order(spark: SparkSession, events: Events, *fields: str) -> list[Any]:
    """Return the bodies in offset order: dicts, or the values of one field."""
    frame = events.load(spark, events.schema)
    found = [(row[PLACE], row[VALUE]) for row in frame.select(PLACE, VALUE).collect()]
    assert len({place for place, _ in found}) == len(found)
    bodies = [value and value.asDict(recursive=True) for _, value in sorted(found, key=lambda pair: pair[0])]
    return [body[fields[0]] for body in bodies] if fields else bodies


def offsets(spark: SparkSession, events: Events) -> set[Any]:
    return {row[OFFSET] for row in events.load(spark, events.schema).select(OFFSET).collect()}


def set_mtime(path: Path, second: float) -> Path:
    """Set the modification time of a file."""
    os.utime(path, (second, second))
    return path
