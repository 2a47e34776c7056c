"""Maintenance during a run: one table at a time, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.engine.batch.maintenance import Report, SteadyClock, maintain_table
from headrace.engine.batch.table_locks import TableLocks
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.write.feed_writer import find_first_table, name_feed
from headrace.progress.maintained import Maintained
from headrace.sdk.sink import Sink, Table
from headrace.spark.job_tags import cancel_jobs, tag_jobs
from headrace.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Batches of a table between two checks whether maintenance is due.
BATCHES_BETWEEN_CHECKS = 8
#: Seconds for which a table is skipped after its maintenance failed.
PAUSE_SECONDS = 600.0
#: A table is skipped for this multiple of the time that its maintenance took, which limits maintenance to a fifth of the time.
PAUSE_SHARE = 4.0
#: Seconds between two attempts to cancel the jobs of a step.
_CANCEL_SECONDS = 0.2
#: Tag of the jobs of maintenance, in place of a table.
_TAG = "\0maintenance"


class Maintainer:
    """Maintenance of the tables that a run has written, one after the other.

    Its thread starts with the first table that is due.
    """

    def __init__(self, current: CurrentPlan, sessions: Sessions, report: Report) -> None:
        self._current, self._sessions, self._report = current, sessions, report
        self._clock = SteadyClock()
        #: Held by batches, and by steps that exclude them.
        self.locks = TableLocks()
        self._changed, self._is_stopping, self._is_ending = threading.Condition(), False, False
        #: Batches of each table since its last check, and the tables to check.
        self._batches: Counter[str] = Counter()
        self._due: dict[str, None] = {}
        self._pauses: dict[tuple[str, str], float] = {}
        self._thread: threading.Thread | None = None

    def note_batch(self, tables: Iterable[str]) -> None:
        """Count a batch for the tables that it wrote, and check those with enough batches."""
        plan = self._current.plan
        enabled = [table for table in tables if plan.for_table(table).settings.maintenance.enabled]
        with self._changed:
            self._batches.update(enabled)
            self._due.update({t: None for t, count in self._batches.items() if count >= BATCHES_BETWEEN_CHECKS})
            if self._due and self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="headrace-maintenance", daemon=True)
                self._thread.start()
            self._changed.notify()

    def finish(self) -> None:
        """Check every table that was written since its last check, then stop."""
        with self._changed:
            self._due.update(dict.fromkeys(self._batches))
            self._is_ending = True
            self._changed.notify()
        if self._thread is None:
            self._run()
        else:
            self._thread.join()

    def stop(self) -> None:
        """Stop immediately. A canceled step leaves the table unchanged."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread is None or self._thread is threading.current_thread():
            return
        while self._thread.is_alive():  # It may be between two jobs.
            with suppress(Exception):  # Without Spark's JVM the step has ended as well.
                cancel_jobs(self._sessions.of("maintenance"), self._current.plan.checkpoint, _TAG)
            self._thread.join(_CANCEL_SECONDS)

    def _run(self) -> None:
        session = self._sessions.of("maintenance")
        while (table := self._next()) is not None:
            plan = self._current.plan.for_table(table)
            feeds = [(name_feed(table), sink) for sink in plan.sinks_of(table) if sink.config.changes]
            for name, sink in [*((table, sink) for sink in plan.sinks_of(table)), *feeds]:
                if time.monotonic() < self._pauses.get((name, plan.name_of(sink)), 0.0):
                    continue
                has_failed, start = False, time.monotonic()
                for done in self._maintain(plan, session, name, sink):
                    if self._is_stopping:
                        return
                    self._report(done)
                    has_failed = has_failed or done.error is not None
                # The check counts as well: on a large table it may take longer than a step.
                now = time.monotonic()
                self._pauses[name, plan.name_of(sink)] = now + PAUSE_SECONDS * has_failed + PAUSE_SHARE * (now - start)

    def _maintain(self, plan: Plan, session: SparkSession, table: str, sink: Sink) -> Iterator[Maintained]:
        policy = replace(plan.settings.maintenance.policy, clock=self._clock)
        with tag_jobs(session, plan.checkpoint, _TAG):
            yield from maintain_table(plan, session, Table(table), sink, policy, hold=partial(self._hold, plan))

    def _hold(self, plan: Plan, table: str) -> AbstractContextManager[None]:
        """Exclude the writes of a table. Batches of several tables write dead letters at the same time."""
        dead_letters = plan.dead_letter_table
        if dead_letters and dead_letters.table_name == table:
            return dead_letters.hold()
        return self.locks.hold(find_first_table(plan, table))

    def _next(self) -> str | None:
        """Wait for a table to check, and return it; None to end the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._is_ending or self._is_stopping)
            if self._is_stopping or not self._due:
                return None
            table = next(iter(self._due))
            del self._due[table], self._batches[table]
            return table
