"""Catch-up of tables that were set aside: each is retried until it has its backlog, while the other tables continue."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.checkpoint.backlog import BacklogEntry
from headrace.engine.batch.backlogs import Backlogs, WaitingError
from headrace.engine.plan.retry import Backoff
from headrace.errors import HeadraceError
from headrace.spark.error_text import first_line

#: Seconds before a failed table is retried: the first pause, and the longest.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0

#: Writes one backlog entry into a table, or raises HeadraceError.
ProcessEntry = Callable[[str, BacklogEntry], None]


class CatchUp:
    """Threads that process backlogs, one for each table that is set aside."""

    def __init__(self, backlogs: Backlogs, process: ProcessEntry) -> None:
        self._backlogs, self._process = backlogs, process
        self._lock = threading.Lock()
        self._threads: dict[str, _TableCatchUp] = {}
        self._has_ended = False

    def start(self, *, is_delayed: bool = False) -> None:
        """Start a thread for every table that has none.

        ``is_delayed``: the tables failed just now, so wait before the first retry.
        """
        with self._lock:
            if self._has_ended:
                return
            running = {table for table, thread in self._threads.items() if thread.is_alive()}
            for table in self._backlogs.errors.keys() - running:
                pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
                first_pause = pauses.next() if is_delayed else 0.0
                thread = _TableCatchUp(table, self._backlogs, self._process, self._remove_if_empty, first_pause, pauses)
                self._threads[table] = thread
                thread.start()

    def finish(self) -> HeadraceError | None:
        """Retry every table once without a pause, then stop; return the error of a table that still fails.

        A table that waits for the backlog of another one is retried again when that one has caught up.
        """
        threads = self._end(once_more=True)
        while any(thread.retry() for thread in threads if thread.is_waiting()):
            pass
        errors = [error for error in self._backlogs.errors.values() if error]
        return min(errors, key=lambda error: isinstance(error, WaitingError), default=None)

    def stop(self) -> None:
        """Stop after the entries in progress."""
        self._end(once_more=False)

    def _end(self, *, once_more: bool) -> list[_TableCatchUp]:
        with self._lock:
            threads, self._has_ended = list(self._threads.values()), True
        for thread in threads:
            thread.end(once_more=once_more)
        for thread in threads:
            if thread is not threading.current_thread():  # A progress listener may stop the run from this thread.
                thread.join()
        return threads

    def _remove_if_empty(self, table: str) -> bool:
        with self._lock:
            has_caught_up = self._backlogs.remove_if_empty(table)
            if has_caught_up:
                del self._threads[table]
            return has_caught_up


class _TableCatchUp(threading.Thread):
    """Retries one table until its backlog is empty."""

    def __init__(
        self,
        table: str,
        backlogs: Backlogs,
        process: ProcessEntry,
        remove_if_empty: Callable[[str], bool],
        first_pause: float,
        pauses: Backoff,
    ) -> None:
        super().__init__(name=f"headrace-catch-up-{table}", daemon=True)
        self._table, self._backlogs, self._process, self._remove_if_empty = table, backlogs, process, remove_if_empty
        self._first_pause, self._pauses = first_pause, pauses
        self._wake, self._once_more, self._is_stopping = threading.Event(), threading.Event(), threading.Event()

    def end(self, *, once_more: bool) -> None:
        """Stop; with ``once_more`` after one more attempt."""
        (self._once_more if once_more else self._is_stopping).set()
        self._wake.set()

    def run(self) -> None:
        """Process the backlog until it is empty."""
        pause = self._first_pause
        while True:
            self._wake.wait(pause)
            is_last = self._once_more.is_set()
            if self._is_stopping.is_set() or self.retry() or is_last:
                return
            pause = self._pauses.next()

    def is_waiting(self) -> bool:
        """Return whether the table's last attempt failed only because another table had not caught up."""
        return isinstance(self._backlogs.errors.get(self._table), WaitingError)

    def retry(self) -> bool:
        """Process the backlog; return whether the table has caught up."""
        try:
            backlog = self._backlogs.get(self._table)
            while not self._is_stopping.is_set():
                entry = backlog.begin()
                if entry is not None:
                    self._process(self._table, entry)
                    backlog.finish(entry)
                elif self._remove_if_empty(self._table):  # Otherwise a batch was added meanwhile.
                    return True
        except Exception as raised:  # noqa: BLE001 - a table without a thread would wait forever
            self._backlogs.note_error(self._table, _wrap(raised, self._table))
        return False


def _wrap(raised: Exception, table: str) -> HeadraceError:
    if isinstance(raised, HeadraceError):
        return raised
    return HeadraceError(
        f"{type(raised).__name__}: {first_line(raised)}",
        where=f"table {table}, which is set aside",
        fix="headrace retries it; run with --traceback for the full error",
    )
