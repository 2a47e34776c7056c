"""Times and counts of the events of a run, by a clock that does not jump."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping

from headrace.sdk.observer import RunEvent, RunEventKind

#: Number of times that are kept for each table.
_KEPT = 1000


class EventRecord:
    """Record of the events of a run. Its thread adds events; the thread that evaluates conditions reads them."""

    def __init__(self, window: float, now: Callable[[], float]) -> None:
        """``window``: seconds over which dead letters and schema changes count."""
        self._window, self._now, self._lock = window, now, threading.Lock()
        self._last_batch, self._has_committed = now(), False
        self._letters: defaultdict[str, deque[tuple[float, Mapping[str, int]]]] = defaultdict(
            lambda: deque(maxlen=_KEPT)
        )
        self._schemas: dict[str, float] = {}
        self._end: RunEvent | None = None

    def add(self, event: RunEvent) -> None:
        """Add an event."""
        with self._lock:
            if event.kind is RunEventKind.BATCH_COMMITTED:
                self._last_batch, self._has_committed = self._now(), True
            elif event.kind is RunEventKind.DEAD_LETTERS_WRITTEN and event.table:
                self._letters[event.table].append((self._now(), event.counts))
            elif event.kind is RunEventKind.SCHEMA_CHANGED and event.topic:
                self._schemas[event.topic] = self._now()
            elif event.kind is RunEventKind.RUN_STOPPED:
                self._end = event

    @property
    def end(self) -> RunEvent | None:
        """End of the run; None before."""
        return self._end

    @property
    def has_committed(self) -> bool:
        """Whether this run has committed a batch."""
        return self._has_committed

    def seconds_since_batch(self) -> float:
        """Return the seconds since the last committed batch, or since the start of the run."""
        with self._lock:
            return self._now() - self._last_batch

    def count_dead_letters(self) -> dict[str, Counter[str]]:
        """Return the dead letters within the window: table → reason → number."""
        with self._lock:
            begin, found = self._now() - self._window, dict[str, Counter[str]]()
            for table, batches in self._letters.items():
                while batches and batches[0][0] < begin:
                    batches.popleft()
                if batches:
                    found[table] = sum((Counter(counts) for _, counts in batches), Counter())
            return found

    def list_changed_schemas(self) -> list[str]:
        """Return the topics whose schema was replaced within the window."""
        with self._lock:
            begin = self._now() - self._window
            self._schemas = {topic: time for topic, time in self._schemas.items() if time >= begin}
            return list(self._schemas)
