"""The files that Spark keeps of a stream in its checkpoint: by what it writes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.spark.sessions import has_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.storage import Folder

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FOR_DISKS = "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
#: Of Spark's module for stores. It refuses any other place.
FOR_STORES = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
#: The setting is the session's: two streams may have checkpoints in places of two kinds, and start in two threads.
_starting = threading.Lock()


@contextmanager
def choose_file_manager(spark: SparkSession, checkpoint: Folder) -> Iterator[None]:
    """While a stream starts: Spark writes its checkpoint by what suits the place, unless somebody has said by what.

    Else it would run ``readlink`` sixteen times for a batch on a local disk. In a store it would write each file under another name and
    move it there, with 25 requests; Spark's module for stores, where it is there, puts it in its place with 11.
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
    """None where Spark's own choice is as good."""
    if checkpoint.path.startswith("file:"):
        return FOR_DISKS
    return FOR_STORES if checkpoint.is_in_store and has_class(spark, FOR_STORES) else None
