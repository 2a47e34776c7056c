"""Backlogs of the tables that were set aside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.checkpoint.backlog import Backlog, ReplayRanges
from headrace.checkpoint.layout import list_tables, table_folder
from headrace.errors import HeadraceError, RetriableError
from headrace.progress.rates import TableFailure

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


class WaitingError(RetriableError):
    """A table's records wait until the table has applied other records of its backlog."""


@dataclass
class _TableBacklog:
    """Backlog of one table, and the last error of this run; None before its first attempt."""

    backlog: Backlog
    error: HeadraceError | None = None


class Backlogs:
    """The tables that were set aside, each with the batches that it still needs. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        #: Called with a table that is set aside, its batch and its error; and with one that has caught up.
        self.on_set_aside: Callable[[str, int, str], None] = lambda table, batch, error: None
        self.on_caught_up: Callable[[str], None] = lambda table: None
        self._tables = {name: self._open(name) for name in list_tables(folder)}

    @property
    def errors(self) -> dict[str, HeadraceError | None]:
        """Table → its last error; None if this run has not tried it yet."""
        with self._lock:
            return {name: table.error for name, table in self._tables.items()}

    @property
    def failures(self) -> dict[str, TableFailure]:
        """Table → why it is not written, and how many batches wait."""
        with self._lock:
            failures = {name: table.backlog.failure for name, table in self._tables.items()}
        return {name: failure for name, failure in failures.items() if failure}

    @property
    def whole_topics(self) -> set[str]:
        """Topics of several tables that could not be read: their tables are unknown until their backlogs are applied."""
        with self._lock:
            return {topic for table in self._tables.values() for topic in table.backlog.whole_topics}

    def has_later(self, table: str, batch: int) -> bool:
        """Return whether a batch in the backlog of a table is later than ``batch``."""
        with self._lock:
            found = self._tables.get(table)
            return found is not None and found.backlog.last > batch

    def get(self, table: str) -> Backlog:
        """Return the backlog of a table that is set aside."""
        with self._lock:
            return self._tables[table].backlog

    def defer(
        self,
        table: str,
        batch: int,
        find_ranges: Callable[[], ReplayRanges],
        *,
        is_whole: bool = False,
        stays_alone: bool = False,
    ) -> str | None:
        """Add a batch to the backlog of a table that is set aside, and return why it waits; None for other tables.

        WaitingError if the backlog has a later batch, and not these records. The flags are those of ``Backlog.add``.
        """
        with self._lock:
            found = self._tables.get(table)
            oldest = found.backlog.oldest if found else None
            if found is None or oldest is None:
                return None
            flags = {"is_whole": is_whole, "stays_alone": stays_alone}
            if not found.backlog.add(batch, find_ranges(), oldest.since, oldest.error, **flags):
                raise _cannot_add(table, batch)
            return f"waits since {oldest.since}: {oldest.error}"

    def set_aside(
        self, table: str, batch: int, ranges: ReplayRanges, error: HeadraceError, text: str, *, is_whole: bool = False
    ) -> None:
        """Set a table aside from the batch that failed. ``text``: the error without secrets. WaitingError as in ``defer``."""
        with self._lock:
            # A thread that catches up may use the backlog of the table now, so it is not opened again.
            before = self._tables.get(table)
            found = before or self._open(table)
            self._tables[table] = found
            found.error = error
            since = datetime.now(UTC).isoformat(timespec="seconds")
            # A sink that wrote the batch before another sink failed recognizes it by this batch's mark only.
            if not found.backlog.add(batch, ranges, since, text, is_whole=is_whole, stays_alone=True):
                raise _cannot_add(table, batch)
        if before is None:
            self.on_set_aside(table, batch, text)

    def note_error(self, table: str, error: HeadraceError) -> None:
        """Note why the last attempt to catch up failed."""
        with self._lock:
            if found := self._tables.get(table):
                found.error = error

    def remove_if_empty(self, table: str) -> bool:
        """Remove a table that has caught up; return whether it has."""
        with self._lock:
            has_caught_up = self._tables[table].backlog.oldest is None
            if has_caught_up:
                self._folder.delete(quote(table, safe=""))  # If it fails, the table's thread tries again.
                del self._tables[table]
        if has_caught_up:
            self.on_caught_up(table)
        return has_caught_up

    def _open(self, table: str) -> _TableBacklog:
        return _TableBacklog(Backlog(table_folder(self._folder, table)))


def _cannot_add(table: str, batch: int) -> WaitingError:
    return WaitingError(
        f"its backlog has batch {batch} or a later one without all records of batch {batch}, which must follow it",
        where=f"table {table}",
        fix="headrace retries it after this backlog is applied; repair the table if its backlog does not become empty",
    )
