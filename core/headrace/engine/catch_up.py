"""Tables that fail alone: they wait while the others go on, are tried again, and catch up from where they stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.checkpoint.backlog import Backlog, Part, Places
from headrace.errors import HeadraceError
from headrace.spark.error_text import first_line

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

#: Seconds before a table that failed is tried again: the first time, and at most.
PAUSE, LONGEST = 2.0, 60.0

Apply = Callable[[str, Part], None]


class Behind:
    """The tables of a pipeline that are behind, each with a thread that tries it again."""

    def __init__(self, folder: Folder, apply: Apply) -> None:
        """``apply``: gives a table a part of its backlog, or raises a HeadraceError."""
        self._folder, self._apply = folder, apply
        self._lock = threading.Lock()
        self._tables = {name: self._table(name, due=0.0) for name in map(unquote, folder.names())}
        for table in list(self._tables.values()):
            table.start()

    @property
    def errors(self) -> dict[str, HeadraceError | None]:
        """The tables that are behind, with their last error; None for one that this run has not tried yet."""
        with self._lock:
            return {name: table.error for name, table in self._tables.items()}

    def holds(self, name: str, batch: int, places: Callable[[], Places]) -> str | None:
        """Keeps a batch for a table that is behind, and says why; None for one that is not."""
        with self._lock:
            table = self._tables.get(name)
            oldest = table.backlog.oldest if table else None
            if table is None or oldest is None:
                return None
            table.backlog.add(batch, places(), oldest.since, oldest.error)
            return f"waits since {oldest.since}: {oldest.error}"

    def begin(self, name: str, batch: int, places: Places, error: HeadraceError, text: str) -> None:
        """From this batch on, which failed, the table is behind. ``text``: the error as it may be written down."""
        with self._lock:
            self._tables[name] = table = self._table(name, due=PAUSE)
            table.error = error
            table.backlog.add(batch, places, datetime.now(UTC).isoformat(timespec="seconds"), text)
            table.start()

    def settle(self) -> HeadraceError | None:
        """Tries every table once more, at once; the error of one that is behind even so."""
        self._end(last=True)
        return next((error for error in self.errors.values() if error), None)

    def stop(self) -> None:
        """Ends after what is under way."""
        self._end(last=False)

    def _end(self, *, last: bool) -> None:
        with self._lock:
            tables = list(self._tables.values())
        for table in tables:
            table.end(last=last)
        for table in tables:
            if table is not threading.current_thread():  # a listener may stop the run from there
                table.join()

    def _table(self, name: str, *, due: float) -> _CatchUp:
        return _CatchUp(name, Backlog(self._folder.folder(quote(name, safe=""))), due, self._apply, self._leave)

    def _leave(self, name: str) -> bool:
        """Whether the table has all that it missed, so that it is one of the others again."""
        with self._lock:
            left = self._tables[name].backlog.oldest is None
            if left:
                del self._tables[name]
                self._folder.delete(quote(name, safe=""))
            return left


def waiting(folder: Folder) -> dict[str, Part]:
    """The tables in a pipeline's ``behind/`` → the oldest part of what each has still to get."""
    oldest = {unquote(name): Backlog(folder.folder(name)).oldest for name in folder.names()}
    return {name: part for name, part in oldest.items() if part}


class _CatchUp(threading.Thread):
    """Tries a table again until it has all that it missed."""

    def __init__(self, name: str, backlog: Backlog, due: float, apply: Apply, leave: Callable[[str], bool]) -> None:
        super().__init__(name=f"headrace-behind-{name}", daemon=True)
        self.backlog = backlog
        self.error: HeadraceError | None = None
        self._table, self._due, self._apply, self._leave = name, due, apply, leave
        self._wake, self._last, self._stop_asked = threading.Event(), threading.Event(), threading.Event()

    def end(self, *, last: bool) -> None:
        """Ends it, ``last``: after one more try."""
        (self._last if last else self._stop_asked).set()
        self._wake.set()

    def run(self) -> None:
        pause = self._due
        while True:
            self._wake.wait(pause)
            last = self._last.is_set()
            if self._stop_asked.is_set() or self._caught_up() or last:
                return
            pause = min(max(2 * pause, PAUSE), LONGEST)

    def _caught_up(self) -> bool:
        try:
            while not self._stop_asked.is_set():
                part = self.backlog.begin()
                if part is not None:
                    self._apply(self._table, part)
                    self.backlog.done(part)
                elif self._leave(self._table):  # else a batch came meanwhile
                    return True
        except Exception as raised:  # noqa: BLE001 - whatever it is: a table that nobody tries again would wait for ever
            self.error = raised if isinstance(raised, HeadraceError) else _unexpected(raised, self._table)
        return False


def _unexpected(error: Exception, table: str) -> HeadraceError:
    return HeadraceError(
        f"{type(error).__name__}: {first_line(error)}",
        where=f"table {table}, which is behind",
        fix="it is tried again; run it with --traceback to see where it comes from",
    )
