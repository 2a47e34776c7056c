"""Maintenance beside a run: one table at a time, between its batches, and never in the way of one for long."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.checkpoint.progress_log import ProgressLog
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import retry
from headrace.errors import RetriableError
from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep, TableSize
from headrace.sdk.sink import Sink, Table
from headrace.spark.job_tags import cancel_jobs, tag_jobs
from headrace.spark.sessions import Sessions
from headrace.upsert.table_state import TableStates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.checkpoint.layout import CheckpointFolders

#: Batches of a table between two looks at it.
BATCHES_BETWEEN_LOOKS = 8
#: Seconds for which a table is left alone after its maintenance failed.
PAUSE_SECONDS = 600.0
#: How many times as long as its maintenance took a table is left alone: it has a fifth of the time at most.
PAUSE_SHARE = 4.0
#: Seconds between two tries to cancel the jobs of a step.
_CANCEL_SECONDS = 0.2
#: What the jobs of maintenance are tagged with, instead of a table.
_TAG = "\0maintenance"


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to a table: the step, what it found, what came of it; ``error``: why it failed.

    ``outcome`` is None where the step was only looked for.
    """

    table: str
    sink: str
    step: str
    what: str
    outcome: str | None = None
    seconds: float = 0.0
    error: str | None = None

    def __str__(self) -> str:
        place = f"{self.table} → {self.sink}: {self.step}"
        if self.error is not None:
            return f"{place}: {self.error}"
        if self.outcome is None:
            return f"{place}: {self.what}"
        return f"{place}: {self.outcome}, took {self.seconds:.1f} s"


Report = Callable[[Maintained], None]


class SteadyClock:
    """Seconds since 1970, never ahead of the time that has gone by since it was made: nothing is old because a clock jumped."""

    def __init__(self, clock: Callable[[], float] = time.time, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._elapsed = clock, elapsed
        self._start = clock() - elapsed()

    def __call__(self) -> float:
        return min(self._clock(), self._start + self._elapsed())


@dataclass(frozen=True)
class MeasuredTable:
    """A table of a pipeline in one sink, and its size."""

    table: str
    sink: str
    size: TableSize


def find_tables(checkpoint: CheckpointFolders) -> list[str]:
    """The tables that a pipeline has written, by what is in its checkpoint."""
    progress = {table.table for batch in ProgressLog(checkpoint.batch_progress).all() for table in batch.tables}
    return sorted(progress | TableStates(checkpoint, 0.0).names())


def measure(plan: Plan, spark: SparkSession, tables: Iterable[str]) -> Iterator[MeasuredTable]:
    """The size of each table in each sink; those are left out that a sink does not have, or cannot measure."""
    session = Sessions(spark, plan.sql_conf).of("maintenance")
    for table in tables:
        for sink in plan.sinks:
            try:
                size = sink.measure_table(session, Table(table))
            except Exception as error:
                raise translate(error, plan, sink) from error
            if size is not None:
                yield MeasuredTable(table, sink.name, size)


def maintain(plan: Plan, spark: SparkSession, tables: Iterable[str], *, dry_run: bool) -> Iterator[Maintained]:
    """Does what is due for tables, now; ``dry_run``: only looks. What fails is an item with its error."""
    session = Sessions(spark, plan.sql_conf).of("maintenance")
    policy = replace(plan.settings.maintenance.policy, files=2, clock=SteadyClock())
    for table in tables:
        for sink in plan.sinks:
            yield from _maintain(plan, session, Table(table), sink, policy, dry_run=dry_run)


class Maintainer:
    """Keeps the tables of a run quick. A thread of its own looks at those that were written, one after the other."""

    def __init__(self, plan: Plan, sessions: Sessions, report: Report) -> None:
        self._plan, self._sessions, self._report = plan, sessions, report
        self._policy = replace(plan.settings.maintenance.policy, clock=SteadyClock())
        self._is_enabled = plan.settings.maintenance.enabled
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._changed, self._is_stopping, self._is_ending = threading.Condition(), False, False
        #: Batches of each table since it was looked at, and the tables that are to be looked at.
        self._batches: Counter[str] = Counter()
        self._due: dict[str, None] = {}
        self._pauses: dict[tuple[str, str], float] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(self, table: str) -> Iterator[None]:
        """While a batch of a table is applied: no step that would make it void runs meanwhile."""
        with self._changed:
            lock = self._locks[table]
        with lock:
            yield

    def note_batch(self, tables: Iterable[str]) -> None:
        """Notes which tables a batch wrote; those that had some are looked at."""
        if not self._is_enabled:
            return
        with self._changed:
            self._batches.update(tables)
            self._due.update({t: None for t, count in self._batches.items() if count >= BATCHES_BETWEEN_LOOKS})
            if self._due and self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="headrace-maintenance", daemon=True)
                self._thread.start()
            self._changed.notify()

    def finish(self) -> None:
        """Looks at every table that was written since its last look, and ends."""
        with self._changed:
            self._due.update(dict.fromkeys(self._batches))
            self._is_ending = True
            self._changed.notify()
        if self._thread is None:
            self._run()
        else:
            self._thread.join()

    def stop(self) -> None:
        """Ends at once; a step that is under way leaves no trace."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread is None or self._thread is threading.current_thread():
            return
        while self._thread.is_alive():  # it may be between two jobs
            with suppress(Exception):  # Spark's JVM may be gone, and then the step has ended as well
                cancel_jobs(self._sessions.of("maintenance"), self._plan.checkpoint, _TAG)
            self._thread.join(_CANCEL_SECONDS)

    def _run(self) -> None:
        session = self._sessions.of("maintenance")
        while (table := self._next()) is not None:
            for sink in self._plan.sinks:
                if time.monotonic() < self._pauses.get((table, sink.name), 0.0):
                    continue
                failures, began = 0, time.monotonic()
                for done in self._maintain(session, table, sink):
                    if self._is_stopping:
                        return
                    self._report(done)
                    failures += done.error is not None
                # The looks count as well: those at a large table take longer than many a step.
                now = time.monotonic()
                self._pauses[table, sink.name] = now + PAUSE_SECONDS * failures + PAUSE_SHARE * (now - began)

    def _maintain(self, session: SparkSession, table: str, sink: Sink) -> Iterator[Maintained]:
        with tag_jobs(session, self._plan.checkpoint, _TAG):
            yield from _maintain(self._plan, session, Table(table), sink, self._policy, hold=self.hold)

    def _next(self) -> str | None:
        """The table to look at next, once there is one; None when it is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._is_ending or self._is_stopping)
            if self._is_stopping or not self._due:
                return None
            table = next(iter(self._due))
            del self._due[table], self._batches[table]
            return table


def _maintain(
    plan: Plan,
    session: SparkSession,
    table: Table,
    sink: Sink,
    policy: MaintenancePolicy,
    *,
    hold: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    dry_run: bool = False,
) -> Iterator[Maintained]:
    step: MaintenanceStep | None = None
    try:
        for step in sink.plan_maintenance(session, table, policy):
            if dry_run:
                yield Maintained(table.name, sink.name, step.name, step.what)
                continue
            with hold(table.name) if step.exclusive else nullcontext():
                started = time.monotonic()
                outcome = retry(step.run, lambda raised: translate(raised, plan, sink))
            yield Maintained(table.name, sink.name, step.name, step.what, outcome, time.monotonic() - started)
    except Exception as raised:  # noqa: BLE001 - the batches go on, and so do the other tables
        error = translate(raised, plan, sink)
        # How to go on with a write is of no use here: it is tried again the next time.
        text = plan.redact(error.what if isinstance(error, RetriableError) else str(error))
        yield Maintained(table.name, sink.name, step.name if step else "look", step.what if step else "", error=text)
