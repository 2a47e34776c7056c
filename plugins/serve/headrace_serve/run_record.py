"""Counts and last events of a run, from its events."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.sdk.observer import BatchProgress, RunEvent, RunEventKind, TableProgress
from headrace_serve.histogram import Histogram

#: Names of a table and a sink.
TableInSink = tuple[str, str]
#: Label of tables beyond the limit.
OTHER = "_other"
#: Upper bounds of buckets in seconds.
LATENCY_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
BATCH_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
#: Number of last batches, failures and maintenance steps that are kept for the page.
KEPT = 20
_OUTCOMES = ("applied", "late", "superseded", "filtered", "dropped")


@dataclass
class TableRecord:
    """Counts of one table in one sink since the start of the run. A row counts after its commit."""

    rows: Counter[str] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS))
    seconds: float = 0.0
    #: Seconds since 1970.
    last_success: float | None = None
    #: Latency in seconds, and records per second, of the last batches.
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, progress: TableProgress, time: float) -> None:
        """Add a committed batch. Counts that are unknown stay unknown until the first known one."""
        self.last_success = time
        self.seconds += progress.seconds
        if progress.skipped:  # An earlier attempt has written it.
            return
        for outcome in _OUTCOMES:
            count = getattr(progress, outcome)
            if count is not None:
                self.rows[outcome] += count
        if progress.latency_ms is not None:
            self.latency.add(progress.latency_ms / 1000)
            self.latencies.append(progress.latency_ms / 1000)
        if progress.rows_in is not None:
            self.rates.append(progress.rows_in / max(progress.seconds, 0.001))


class RunRecord:
    """Record of a run. Its thread adds events; threads of requests read it under ``hold``."""

    def __init__(self, max_tables: int) -> None:
        self._max_tables, self._lock = max_tables, threading.Lock()
        #: Number of events, which changes with each.
        self.version = 0
        self.tables: dict[TableInSink, TableRecord] = {}
        #: Table and reject reason → number of dead letters.
        self.dead_letters: Counter[tuple[str, str]] = Counter()
        self.counts: Counter[RunEventKind] = Counter()
        self.batch_seconds = Histogram(BATCH_BOUNDS)
        #: Step of batches → seconds.
        self.step_seconds: defaultdict[str, float] = defaultdict(float)
        #: Step and result → number; step → seconds.
        self.maintenance: Counter[tuple[str, str]] = Counter()
        self.maintenance_seconds: defaultdict[str, float] = defaultdict(float)
        self.batches: deque[RunEvent] = deque(maxlen=KEPT)
        self.maintained: deque[RunEvent] = deque(maxlen=KEPT)
        self.troubles: deque[RunEvent] = deque(maxlen=KEPT)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the record unchanged."""
        with self._lock:
            yield

    def add(self, event: RunEvent) -> None:
        """Add an event."""
        with self._lock:
            self.version += 1
            self.counts[event.kind] += 1
            if event.kind in (RunEventKind.BATCH_COMMITTED, RunEventKind.BATCH_FAILED):
                self.batches.append(event)
                self._add_batch(event.progress, event.time)
            elif event.kind is RunEventKind.DEAD_LETTERS_WRITTEN:
                for reason, count in event.counts.items():
                    self.dead_letters[self._limit_table(event.table or ""), reason] += count
            elif event.maintained is not None:
                self._add_maintenance(event)
            if event.error is not None:
                self.troubles.append(event)

    def _add_batch(self, progress: BatchProgress | None, time: float) -> None:
        if progress is None:
            return
        self.batch_seconds.add(progress.seconds)
        for step, seconds in progress.steps.items():
            self.step_seconds[step] += seconds
        for table in progress.tables:
            if table.error is None:
                self._find_record(table.table, table.sink).add(table, time)

    def _add_maintenance(self, event: RunEvent) -> None:
        assert event.maintained
        self.maintained.append(event)
        step, is_failed = event.maintained.step, event.maintained.error is not None
        self.maintenance[step, "failed" if is_failed else "done"] += 1
        self.maintenance_seconds[step] += event.maintained.seconds

    def _find_record(self, table: str, sink: str) -> TableRecord:
        name = (table, sink)
        if name not in self.tables and len(self.tables) >= self._max_tables:
            name = (OTHER, OTHER)
        return self.tables.setdefault(name, TableRecord())

    def _limit_table(self, table: str) -> str:
        return table if any(table == known for known, _ in self.tables) else OTHER
