"""Dead letters in files of the checkpoint: ``<batch>/<table>[+<replay or digest>]/``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.dead_letters.rows import DeadLetterBatch, first_seen
from headrace.sdk.sink import Sink, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.dead_letters.replay_queue import ReplayItem, ReplayQueue, Select
    from headrace.spark.storage import Folder

#: File with the digest of the offsets that were read.
_DIGEST = "_headrace_digest"


class DeadLetterFiles:
    """Dead letters in a folder of the checkpoint."""

    #: The files are written without a sink.
    sink: Sink | None = None
    table_name: str | None = None

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def save(self, dead_letters: DataFrame, batch: DeadLetterBatch) -> WriteResult:
        """Replace the dead letters of a table's batch or replay. Repeated dead letters keep the time at which they were first seen.

        Other offsets of the same batch, such as those of another topic that could not be read at first, have their own folder.
        """
        from pyspark.sql import functions as F

        name = f"{batch.batch:010d}/{quote(batch.table, safe='')}" + (f"+{batch.replay.name}" if batch.replay else "")
        if self._has_other_offsets(name, batch.digest):
            name += f"+{batch.digest}"
        if self._folder.is_complete(name):
            older = dead_letters.sparkSession.read.load(f"{self._folder.path}/{name}")
            if (seen := first_seen(older)) is not None:
                dead_letters = dead_letters.withColumn("seen", F.timestamp_micros(F.lit(seen)))
        self._write(dead_letters, name, batch.digest)
        return WriteResult()

    def read(self, session: SparkSession) -> DataFrame | None:
        """Return all dead letters in files; None if there are none."""
        paths = [f"{self._folder.path}/{name}" for name in self._list_folders()]
        return session.read.option("mergeSchema", "true").load(paths) if paths else None

    def claim(self, session: SparkSession, select: Select, queue: ReplayQueue) -> None:
        """Move each folder with selected dead letters to the queue, with its other dead letters."""
        for name in self._list_folders():
            path, (batch, table) = f"{self._folder.path}/{name}", name.split("/")
            if not select(session.read.load(path)).isEmpty():
                queue.claim(path, batch, table)
            if not self._folder.folder(batch).list_files():
                self._folder.delete(batch)

    def has_stored(self, dead_letters: DataFrame) -> bool:
        """Return whether claimed dead letters came from this store. The file store accepts all."""
        return True

    def restore(self, dead_letters: DataFrame, item: ReplayItem) -> None:
        """Put back claimed dead letters that were not replayed."""
        self._write(dead_letters, f"{item.batch_name}/{item.origin}+{item.unique}+kept")

    def _list_folders(self) -> list[str]:
        """Return the folders with files, as ``<batch>/<name>``. ConfigError for damaged files.

        A killed process may leave a folder without files.
        """
        folders = {file.rpartition("/")[0] for file in self._folder.list_files() if file.count("/") == 2}
        for name in folders:
            self._folder.check_complete(name)
        return sorted(folders)

    def _has_other_offsets(self, name: str, digest: str) -> bool:
        """Return whether a folder is complete and known to have dead letters of other offsets."""
        stored = self._folder.read(f"{name}/{_DIGEST}") if digest else None
        return bool(stored) and stored != digest and self._folder.is_complete(name)

    def _write(self, dead_letters: DataFrame, name: str, digest: str = "") -> None:
        dead_letters.coalesce(1).write.mode("overwrite").save(f"{self._folder.path}/{name}")
        if digest:
            self._folder.write(f"{name}/{_DIGEST}", digest)
        self._folder.mark_complete(name)
