"""Observers of one run: each has a thread and a bounded queue, so that it neither slows down nor fails a batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.engine.batch.backlogs import Backlogs
from headrace.engine.run.current_plan import CurrentPlan
from headrace.errors import HeadraceError
from headrace.progress.lineage import TableLineage
from headrace.progress.model import BatchProgress
from headrace.progress.status import Status
from headrace.registry.plugin_errors import as_plugin_error, describe_error
from headrace.sdk.observer import ObservedRun, Observer, RunEvent, RunEventKind
from headrace.sdk.schema_log import SchemaLog

#: Events that wait for an observer; it misses further events.
QUEUED_EVENTS = 1000
#: Seconds for which the end of a run waits for all observers.
CLOSE_SECONDS = 5.0


class Observers:
    """Observers of one run. Threads may share it."""

    def __init__(
        self, observers: Sequence[Observer], redact: Callable[[str], str], warn: Callable[[str], None]
    ) -> None:
        """``warn`` receives one warning for the errors of an observer, and one for the events that it misses."""
        self._redact = redact
        self._threads = [_ObserverThread(observer, lambda text: warn(redact(text))) for observer in observers]
        self._lock, self._has_stopped = threading.Lock(), False

    def open(
        self, pipeline: str, status: Callable[[], Status], lineage: Callable[[], Mapping[str, TableLineage]] = dict
    ) -> None:
        """Open each observer. Raises the first error; the caller closes those that are open."""
        for thread in self._threads:
            thread.open(pipeline, status, lineage)

    def emit(self, kind: RunEventKind, *, error: object = None, **fields: Any) -> None:
        """Send an event to all observers, unless the run has stopped. ``error``: shown without secrets."""
        if self._threads:
            text = None if error is None else self._redact(str(error))
            self.send(RunEvent(kind=kind, time=time.time(), error=text, **fields))

    def send(self, event: RunEvent) -> None:
        """Add an event to each queue, unless the run has stopped."""
        with self._lock:
            for thread in () if self._has_stopped else self._threads:
                thread.put(event)
            self._has_stopped = self._has_stopped or event.kind is RunEventKind.RUN_STOPPED

    def emit_batch(self, batch: int, progress: BatchProgress | None, error: object = None) -> None:
        """Send the events of a batch that is committed, or has failed with ``error``, and of its dead letters."""
        kind = RunEventKind.BATCH_COMMITTED if error is None else RunEventKind.BATCH_FAILED
        self.emit(kind, batch=batch, progress=progress, error=error)
        tables = progress.tables if progress else ()
        # Every sink of a table receives the same records, and a skipped table stored them before.
        letters = {t.table: t.reasons for t in tables if t.error is None and not t.skipped and t.reasons}
        for table, counts in letters.items():
            self.emit(RunEventKind.DEAD_LETTERS_WRITTEN, table=table, batch=batch, counts=counts)

    def watch(self, backlogs: Backlogs, schemas: SchemaLog, current: CurrentPlan) -> None:
        """Send the events of tables, schemas and secrets."""

        def emit_set_aside(table: str, batch: int, error: str) -> None:
            self.emit(RunEventKind.TABLE_SET_ASIDE, table=table, batch=batch, error=error)

        backlogs.on_set_aside = emit_set_aside
        backlogs.on_caught_up = lambda table: self.emit(RunEventKind.TABLE_CAUGHT_UP, table=table)
        schemas.on_change = lambda topic: self.emit(RunEventKind.SCHEMA_CHANGED, topic=topic)
        current.on_renewed = lambda: self.emit(RunEventKind.SECRETS_RENEWED)

    def end(self, error: object) -> None:
        """Send the end of the run, let the observers receive the remaining events and close, and wait a bounded time for them."""
        self.emit(RunEventKind.RUN_STOPPED, error=error)
        for thread in self._threads:
            thread.end()
        end = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(end - time.monotonic())

    def drain(self, seconds: float) -> bool:
        """Wait until all events are received; return False after ``seconds``. Only tests wait for observers."""
        end = time.monotonic() + seconds
        while not (is_idle := all(thread.is_idle for thread in self._threads)) and time.monotonic() < end:
            time.sleep(0.01)
        return is_idle


class _ObserverThread:
    """Thread of one observer, and the events that wait for it."""

    def __init__(self, observer: Observer, warn: Callable[[str], None]) -> None:
        self._observer, self._warn = observer, warn
        self._events: deque[RunEvent] = deque()
        self._changed, self._is_ending, self._has_failed = threading.Condition(), False, False
        self._dropped, self._is_calling = 0, False
        self._thread = threading.Thread(target=self._run, name=f"headrace-observer-{observer.name}", daemon=True)

    def open(
        self, pipeline: str, status: Callable[[], Status], lineage: Callable[[], Mapping[str, TableLineage]]
    ) -> None:
        with as_plugin_error(f"the observer {self._observer.name!r} cannot be opened", HeadraceError):
            self._observer.open(ObservedRun(pipeline, status, lambda: self._dropped, self._warn_of_own, lineage))
        self._thread.start()

    def put(self, event: RunEvent) -> None:
        """Add an event, or count it as dropped."""
        with self._changed:
            if len(self._events) < QUEUED_EVENTS:
                self._events.append(event)
                self._changed.notify()
                return
            self._dropped += 1
            is_first = self._dropped == 1
        if is_first:
            self._warn_of_own(f"misses events, because {QUEUED_EVENTS:,} wait for it; the run continues")

    def end(self) -> None:
        with self._changed:
            self._is_ending = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(max(seconds, 0))
            if self._thread.is_alive():
                self._warn_of_own("does not close; the run ends without it")

    def _run(self) -> None:
        while (event := self._next()) is not None:
            self._call(lambda event=event: self._observer.observe(event))  # type: ignore[misc]  # its type is known
        self._call(self._observer.close)

    @property
    def is_idle(self) -> bool:
        """Whether no event waits or is received now."""
        with self._changed:
            return not (self._events or self._is_calling)

    def _next(self) -> RunEvent | None:
        """Wait for an event; None at the end of the run."""
        with self._changed:
            self._is_calling = False
            self._changed.wait_for(lambda: self._events or self._is_ending)
            self._is_calling = bool(self._events)
            return self._events.popleft() if self._events else None

    def _warn_of_own(self, text: str) -> None:
        self._warn(f"{self._observer.name}: {text}")

    def _call(self, call: Callable[[], None]) -> None:
        """Call the observer. Its first error is a warning."""
        try:
            call()
        except BaseException as raised:  # noqa: BLE001 - the run and the other events continue
            if not self._has_failed:
                self._has_failed = True
                self._warn_of_own(f"raises {describe_error(raised)}; the run continues")
