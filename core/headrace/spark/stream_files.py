"""Files of the checkpoint of Spark's stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.spark.sessions import has_class, name_checkpointing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.storage import Folder

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
#: Class of Spark without its package.
FOR_DISKS = "FileSystemBasedCheckpointFileManager"
#: Part of spark-hadoop-cloud. It rejects file systems other than object stores.
FOR_STORES = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
#: Guards the session's setting, because streams in other threads may have checkpoints on other file systems.
_starting = threading.Lock()


@contextmanager
def choose_file_manager(spark: SparkSession, checkpoint: Folder) -> Iterator[None]:
    """Set the file manager that suits the checkpoint's file system while a stream starts, unless the user configured one.

    By default, Spark runs ``readlink`` sixteen times per batch on a local disk. In an object store it writes each file under another
    name and renames it, with 25 requests; the file manager of spark-hadoop-cloud writes it in place with 11.
    """
    with _starting:
        manager = _find_manager(spark, checkpoint) if spark.conf.get(FILE_MANAGER, None) is None else None
        if manager is None:
            yield
            return
        spark.conf.set(FILE_MANAGER, manager)
        try:
            yield
        finally:
            spark.conf.unset(FILE_MANAGER)


def _find_manager(spark: SparkSession, checkpoint: Folder) -> str | None:
    """Return the class of the file manager; None for Spark's default."""
    if checkpoint.path.startswith("file:"):
        return f"{name_checkpointing()}.{FOR_DISKS}"
    return FOR_STORES if checkpoint.is_in_store and has_class(spark, FOR_STORES) else None


def find_damaged_file(stream: Folder) -> str | None:
    """Return the path of a damaged file in the checkpoint of a stream; None without one. It reads the whole log."""
    for file in stream.list_files():
        folder, _, name = file.rpartition("/")
        is_log = name.removesuffix(".compact").isdigit() and folder.partition("/")[0] in (
            "offsets",
            "commits",
            "sources",
        )
        if (is_log or file == "metadata") and not _is_complete(stream.read(file) or "", is_log=is_log):
            return f"{stream.path}/{file}"
    return None


def _is_complete(text: str, *, is_log: bool) -> bool:
    """Return whether a file can be parsed: JSON; a log has a line with its version before lines of JSON."""
    lines = text.splitlines() if is_log else ["", text]
    try:
        version, *rest = lines
        values = [json.loads(line) for line in rest if line != "-"]  # "-": a source without an offset
    except ValueError:
        return False
    # The first offsets of a source may start with a zero byte (SPARK-19517).
    return bool(values) and (version.removeprefix("\0").startswith("v") or not is_log)
