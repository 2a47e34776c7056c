"""What a batch did, per table: kept beside the checkpoint, read by the screen, ``status`` and any page."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.spark.storage import Folder

#: Batches whose progress is kept.
KEEP = 100


@dataclass(frozen=True)
class TableProgress:
    """One table in one sink. None means: not known without reading the table."""

    table: str
    sink: str
    #: Records that arrived for the table, bad ones included.
    rows_in: int | None
    #: Rows written or removed.
    applied: int | None
    #: Changes that lost against a newer stored row.
    late: int | None
    dead_letters: int
    #: Milliseconds from the newest change's commit in the database to the row being readable.
    latency_ms: int | None
    bytes: int | None
    #: Snapshot id, instant or batch folder, as ``show --as-of`` takes it.
    version: str | None
    seconds: float
    #: The same from the oldest change's commit: nothing in the batch took longer.
    latency_max_ms: int | None = None
    #: Changes that a newer one of the same batch, or a truncate, made void before they were written.
    superseded: int | None = None
    #: Records that could not become a row and were left out, because the file says so.
    dropped: int = 0
    #: Records that waited in the source when the batch was done.
    lag: int | None = None
    #: The batch had been applied before: a crash came between the write and its mark.
    skipped: bool = False
    error: str | None = None
    #: What to know of the table, when there is something.
    note: str | None = None


@dataclass(frozen=True)
class BatchProgress:
    """One batch. ``started`` is UTC, ISO 8601; ``seconds`` the whole batch."""

    pipeline: str
    batch: int
    started: str
    seconds: float
    tables: tuple[TableProgress, ...]
    #: Topics that no rule of ``tables:`` names, left out because the file says so.
    unrouted: tuple[str, ...] = ()
    #: Topics that hold no rows → what they tell of the stream.
    notices: dict[str, str] = field(default_factory=dict)

    def json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> BatchProgress:
        data: dict[str, Any] = json.loads(text)
        tables = tuple(TableProgress(**table) for table in data.pop("tables"))
        return cls(**{**data, "tables": tables, "unrouted": tuple(data["unrouted"])})


class ProgressLog:
    """The last batches' progress in a folder, one file each. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()

    def add(self, progress: BatchProgress) -> None:
        with self._lock:
            self._folder.write(f"{progress.batch:010d}.json", progress.json())
            old = progress.batch - KEEP
            if old >= 0:
                self._folder.delete(f"{old:010d}.json")

    def amend(self, progress: BatchProgress) -> None:
        """Replaces what a batch says of the tables of ``progress``, as long as the batch is kept."""
        name = f"{progress.batch:010d}.json"
        with self._lock:
            if (text := self._folder.read(name)) is not None:
                was, now = BatchProgress.from_json(text), {(t.table, t.sink): t for t in progress.tables}
                tables = tuple(now.get((t.table, t.sink), t) for t in was.tables)
                self._folder.write(name, replace(was, tables=tables).json())

    def all(self) -> list[BatchProgress]:
        texts = (self._folder.read(name) for name in self._folder.names() if name.endswith(".json"))
        return [BatchProgress.from_json(text) for text in texts if text]
