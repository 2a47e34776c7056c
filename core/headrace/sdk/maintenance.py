"""Maintenance of tables: policy, steps and sizes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class MaintenancePolicy:
    """Maintenance options of the pipeline file, for all table formats.

    ``history_seconds``: how long older versions of a table can be read; ``files``: number of extra files from which a table is
    compacted; ``orphans_seconds``: minimum age of files without a version before they are removed. ``clock``: current time in seconds
    since 1970; the engine's clock is never ahead.
    """

    history_seconds: float
    files: int
    orphans_seconds: float = 3 * 86400.0
    clock: Callable[[], float] = time.time

    @property
    def now(self) -> float:
        """Current time in seconds since 1970."""
        return self.clock()

    @property
    def history_begins(self) -> float:
        """Time of the oldest version to keep, in seconds since 1970."""
        return self.now - self.history_seconds


@dataclass(frozen=True)
class MaintenanceStep:
    """Part of a table's maintenance that is due.

    ``what`` describes it (``27 files``); ``run`` does it completely or not at all, and returns a description of the result.
    """

    name: str
    what: str
    run: Callable[[], str]
    #: The engine writes no batch of the table during the step, because that would invalidate it. The step is short.
    exclusive: bool = False


@dataclass(frozen=True)
class TableSize:
    """Size of a table and its maintenance backlog. None: unknown without reading the table."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    #: Files that maintenance would compact.
    small_files: int | None = None
    #: Files with deletes or updates for rows of other files: delete files, log files.
    delete_files: int | None = None
    #: Readable versions, and the time of the oldest: milliseconds since 1970.
    versions: int | None = None
    oldest_version: int | None = None
    #: Time of the last compaction: milliseconds since 1970.
    maintained: int | None = None
