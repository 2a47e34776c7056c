"""Tables that were set aside because they failed: the others go on, and each is tried again until it has caught up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.checkpoint.backlog import Backlog, BacklogEntry, ReplayRanges
from headrace.engine.plan.retry import Backoff
from headrace.errors import HeadraceError
from headrace.progress.rates import TableFailure
from headrace.spark.error_text import first_line

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

#: Seconds before a table that failed is tried again: the first time, and at most.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0

ApplyEntry = Callable[[str, BacklogEntry], None]


class CatchUp:
    """The tables of a pipeline that were set aside, each with a thread that tries it again."""

    def __init__(self, folder: Folder, apply: ApplyEntry) -> None:
        """``apply``: gives a table an entry of its backlog, or raises a HeadraceError."""
        self._folder, self._apply = folder, apply
        self._lock = threading.Lock()
        self._tables = {name: self._table(name, is_new=False) for name in map(unquote, folder.names())}
        for table in list(self._tables.values()):
            table.start()

    @property
    def errors(self) -> dict[str, HeadraceError | None]:
        """The tables that are set aside, with their last error; None for one that this run has not tried yet."""
        with self._lock:
            return {name: table.error for name, table in self._tables.items()}

    @property
    def failures(self) -> dict[str, TableFailure]:
        """The tables that are set aside: why each is not written, and how much waits for it."""
        with self._lock:
            failures = {name: table.backlog.failure for name, table in self._tables.items()}
        return {name: failure for name, failure in failures.items() if failure}

    def defer(self, name: str, batch: int, read_ranges: Callable[[], ReplayRanges]) -> str | None:
        """Adds a batch to the backlog of a table that is set aside, and says why; None for one that is not."""
        with self._lock:
            table = self._tables.get(name)
            oldest = table.backlog.oldest if table else None
            if table is None or oldest is None:
                return None
            table.backlog.add(batch, read_ranges(), oldest.since, oldest.error)
            return f"waits since {oldest.since}: {oldest.error}"

    def set_aside(self, name: str, batch: int, ranges: ReplayRanges, error: HeadraceError, text: str) -> None:
        """Sets a table aside from this batch on, which failed. ``text``: the error as it may be written down."""
        with self._lock:
            self._tables[name] = table = self._table(name, is_new=True)
            table.error = error
            table.backlog.add(batch, ranges, datetime.now(UTC).isoformat(timespec="seconds"), text)
            # It stays alone: a sink that took the batch before another failed knows it by this batch's mark, and by no other.
            table.backlog.begin()
            table.start()

    def finish(self) -> HeadraceError | None:
        """Tries every table once more, at once; the error of one that is set aside even so."""
        self._end(once_more=True)
        return next((error for error in self.errors.values() if error), None)

    def stop(self) -> None:
        """Ends after what is under way."""
        self._end(once_more=False)

    def _end(self, *, once_more: bool) -> None:
        with self._lock:
            tables = list(self._tables.values())
        for table in tables:
            table.end(once_more=once_more)
        for table in tables:
            if table is not threading.current_thread():  # a listener may stop the run from there
                table.join()

    def _table(self, name: str, *, is_new: bool) -> _TableCatchUp:
        backlog = Backlog(self._folder.folder(quote(name, safe="")))
        return _TableCatchUp(name, backlog, self._apply, self._leave, is_new=is_new)

    def _leave(self, name: str) -> bool:
        """Whether the table has all that it missed, so that it is one of the others again."""
        with self._lock:
            has_caught_up = self._tables[name].backlog.oldest is None
            if has_caught_up:
                del self._tables[name]
                self._folder.delete(quote(name, safe=""))
            return has_caught_up


class _TableCatchUp(threading.Thread):
    """Tries a table again until it has all that it missed."""

    def __init__(
        self, name: str, backlog: Backlog, apply: ApplyEntry, leave: Callable[[str], bool], *, is_new: bool
    ) -> None:
        """``is_new``: it failed just now, so that it is not tried at once."""
        super().__init__(name=f"headrace-behind-{name}", daemon=True)
        self.backlog = backlog
        self.error: HeadraceError | None = None
        self._table, self._apply, self._leave, self._is_new = name, apply, leave, is_new
        self._wake, self._once_more, self._stop_asked = threading.Event(), threading.Event(), threading.Event()

    def end(self, *, once_more: bool) -> None:
        """Ends it, ``once_more``: after one more try."""
        (self._once_more if once_more else self._stop_asked).set()
        self._wake.set()

    def run(self) -> None:
        pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        pause = pauses.next() if self._is_new else 0.0
        while True:
            self._wake.wait(pause)
            is_last = self._once_more.is_set()
            if self._stop_asked.is_set() or self._apply_backlog() or is_last:
                return
            pause = pauses.next()

    def _apply_backlog(self) -> bool:
        """Whether the table has caught up."""
        try:
            while not self._stop_asked.is_set():
                entry = self.backlog.begin()
                if entry is not None:
                    self._apply(self._table, entry)
                    self.backlog.finish(entry)
                elif self._leave(self._table):  # else a batch came meanwhile
                    return True
        except Exception as raised:  # noqa: BLE001 - whatever it is: a table that nobody tries again would wait for ever
            self.error = raised if isinstance(raised, HeadraceError) else _wrap(raised, self._table)
        return False


def _wrap(error: Exception, table: str) -> HeadraceError:
    return HeadraceError(
        f"{type(error).__name__}: {first_line(error)}",
        where=f"table {table}, which is set aside",
        fix="it is tried again; run it with --traceback to see where it comes from",
    )
