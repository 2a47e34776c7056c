"""Maintenance: what keeps a table quick however many batches it has had."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class MaintenancePolicy:
    """What the pipeline's file says of maintenance, in words that hold for every table format.

    ``history_seconds``: how long older versions of a table can be read; ``files``: how many files more than it needs a table may
    have before they are compacted; ``orphans_seconds``: how old files must be that no version names before they are removed.
    ``clock``: the time by which ages are told, in seconds since 1970. The engine gives one that is never ahead.
    """

    history_seconds: float
    files: int
    orphans_seconds: float = 3 * 86400.0
    clock: Callable[[], float] = time.time

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self.clock()

    @property
    def history_begins(self) -> float:
        """The time from which on versions can be read, in seconds since 1970."""
        return self.now - self.history_seconds


@dataclass(frozen=True)
class MaintenanceStep:
    """A part of a table's maintenance that is due.

    ``what`` says what is due (``27 files``); ``run`` does it, whole or not at all, and says what came of it.
    """

    name: str
    what: str
    run: Callable[[], str]
    #: A batch that is written meanwhile would make it void, so the engine lets the table's next batch wait. It is short.
    exclusive: bool = False


@dataclass(frozen=True)
class TableSize:
    """How large a table is, and how far from what it could be. None: the format does not tell without reading it."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    #: Files that maintenance would compact into one.
    small_files: int | None = None
    #: Files that say which rows of others are gone, or what became of them: delete files, log files.
    delete_files: int | None = None
    #: Versions that can be read, and the time of the oldest: milliseconds since 1970.
    versions: int | None = None
    oldest_version: int | None = None
    #: When it was last compacted: milliseconds since 1970.
    maintained: int | None = None
