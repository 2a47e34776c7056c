"""Files of a batch, and the topics and offsets in their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.sdk import SourceContext
from headrace_sources.transports.forbidden_files import restore_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.storage import Folder

#: File name of the Confluent S3 sink.
_S3_SINK_NAME = re.compile(r"(?P<topic>.+)\+(?P<partition>\d+)\+(?P<offset>\d+)\.[^/]+")
#: File name of keys or headers that an S3 sink stores next to the values: ``t+0+0000000300.keys.avro``, with any delimiter.
_PART_NAME = re.compile(r".+?(?P<delimiter>\D+)\d+(?P=delimiter)\d+\.(?P<part>keys|headers)(?:\.[A-Za-z0-9]+){1,2}")
_BUCKET = re.compile(r"(?:s3[an]?|gs|abfss?|wasbs?|oss|cosn|obs)://", re.IGNORECASE)
#: Characters that make a path a glob to Hadoop.
_GLOB = frozenset("{}[]*?\\")
#: Suffix of an empty object that represents a folder.
_FOLDER_MARK = "_$folder$"
#: Folder in which Confluent's S3 sink stores the keys of records without a value.
_TOMBSTONES = "tombstone"


def find_topic(file: str) -> str:
    """Return the topic in a file's name, or the name of its folder if the file's name contains none."""
    *folders, name = file.split("/")
    if match := _S3_SINK_NAME.fullmatch(name):
        return match["topic"]
    # Firehose and other writers sort files into folders by date: 2026/01/31/ or day=2026-01-31/.
    return next(part for part in reversed(folders) if part and "=" not in part and not part.isdigit())


def find_omitted_kind(file: str) -> str | None:
    """Return the kind of a file without events; None for a file of events."""
    *folders, name = file.split("/")
    if name.endswith(_FOLDER_MARK):
        return "folder marker"
    match = _PART_NAME.fullmatch(name)
    if match is None:
        return None
    is_tombstone = match["part"] == "keys" and _TOMBSTONES in folders[-1:]
    return "keys of tombstones, whose deletes are not applied" if is_tombstone else f"record {match['part']}"


def group_by_topic(files: Iterable[str]) -> Mapping[str, list[str]]:
    """Return topic → its files of events, both sorted by name."""
    topics: dict[str, list[str]] = {}
    for file in sorted(files):
        if find_omitted_kind(file) is None:
            topics.setdefault(find_topic(file), []).append(file)
    return dict(sorted(topics.items()))


def group_by_offset_names(files: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Return the files whose names contain the offset of their first record (True), and the others; no empty groups."""
    groups: dict[bool, list[str]] = {True: [], False: []}
    for file in files:
        groups[_S3_SINK_NAME.fullmatch(file.rsplit("/", 1)[-1]) is not None].append(file)
    return [(has_offsets, group) for has_offsets, group in groups.items() if group]


def read_planned_files(context: SourceContext) -> list[str] | None:
    """Return the batch's files from the stream's own log, without a Spark job; None if the log does not contain them.

    A batch may hold several entries of the log: a crash can occur between an entry and the batch that takes it.
    """
    if context.stream is None or context.batch is None:
        return None
    offsets, log = context.stream.folder("offsets"), context.stream.folder("sources").folder("0")
    end, start = (_read_log_offset(offsets, batch) for batch in (context.batch, context.batch - 1))
    if end is None or (start is None and context.batch > 0):
        return None
    files = []
    for entry in range(0 if start is None else start + 1, end + 1):
        text = log.read(f"{entry}") or log.read(f"{entry}.compact")  # every tenth entry contains all earlier ones
        if text is None:
            return None
        logged = map(json.loads, text.splitlines()[1:])
        files += [restore_name(unquote(file["path"])) for file in logged if file["batchId"] == entry]
    return files


def count_files(spark: SparkSession, path: str) -> int:
    """Return the number of all files in a folder or a glob of folders, including hidden ones."""
    java = spark._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]  # noqa: SLF001
    files = java.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    folders = [status.getPath() for status in files.globStatus(java) or ()]
    return sum(files.getContentSummary(folder).getFileCount() for folder in folders)


def find_folders(spark: SparkSession, path: str) -> bool:
    """Return whether a folder, or a folder of a glob, exists."""
    java = spark._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]  # noqa: SLF001
    files = java.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    return bool(files.globStatus(java))


def has_no_folders(path: str) -> bool:
    """Return whether a path is in a bucket, whose folders are only parts of the names of objects."""
    return _BUCKET.match(path) is not None


def write_glob(path: str) -> str:
    """Return a glob that matches this path alone. Spark's stream does not require that a glob matches at its start."""
    start, slash, name = path.rstrip("/").rpartition("/")
    return path if set(path) & _GLOB else f"{start}{slash}[{name[0]}]{name[1:]}"


def _read_log_offset(offsets: Folder, batch: int) -> int | None:
    """Return the last log entry of a batch."""
    text = offsets.read(f"{batch}") if batch >= 0 else None
    return None if text is None else int(json.loads(text.splitlines()[-1])["logOffset"])
