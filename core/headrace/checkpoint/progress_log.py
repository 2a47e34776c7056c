"""Progress of the last batches, in the checkpoint."""

from __future__ import annotations

import threading
from dataclasses import replace

from headrace.progress.model import BatchProgress
from headrace.sdk.file_system import TextFolder
from headrace.spark.storage import Folder

#: Batches whose progress is kept.
KEPT_BATCHES = 100


class ProgressLog:
    """Folder with a JSON file for each of the last batches. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()

    def add(self, progress: BatchProgress) -> None:
        with self._lock:
            self._folder.write(f"{progress.batch:010d}.json", progress.json())
            old = progress.batch - KEPT_BATCHES
            if old >= 0:
                self._folder.delete(f"{old:010d}.json")

    def amend(self, progress: BatchProgress) -> None:
        """Replace or add the progress of the tables of ``progress`` in the file of its batch, while that file is kept."""
        name = f"{progress.batch:010d}.json"
        with self._lock:
            if stored := _read_file(self._folder, name):
                amended = {(t.table, t.sink): t for t in progress.tables}
                known = {(t.table, t.sink): t for t in stored.tables}
                self._folder.write(name, replace(stored, tables=tuple((known | amended).values())).json())

    def all(self) -> list[BatchProgress]:
        """Return the progress of the kept batches, oldest first."""
        return read_progress(self._folder)


def read_progress(folder: TextFolder) -> list[BatchProgress]:
    """Return the progress of the batches in a folder, oldest first, without missing and damaged files."""
    files = (_read_file(folder, name) for name in folder.names() if name.endswith(".json"))
    return [progress for progress in files if progress]


def _read_file(folder: TextFolder, name: str) -> BatchProgress | None:
    try:
        text = folder.read(name)
        return BatchProgress.from_json(text) if text else None
    except (ValueError, TypeError, LookupError, AttributeError):  # Not JSON, or not the progress of a batch.
        return None
