"""Events of a run as OpenLineage events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from openlineage.client.event_v2 import RunEvent as LineageEvent, RunState

from headrace.sdk.observer import BatchProgress, ObservedRun, RunEvent, RunEventKind, TableLineage, TableProgress
from headrace_openlineage.run_events import JobRun


class EventStream:
    """OpenLineage runs of one run: one of the pipeline, and one of each table from its first batch until it fails or ends."""

    def __init__(
        self,
        run: ObservedRun,
        namespace: str,
        interval: float,
        now: Callable[[], float],
        send: Callable[[LineageEvent], None],
    ) -> None:
        """``interval``: seconds between two RUNNING events of a job; ``now``: a clock that does not jump."""
        self._run, self._namespace, self._interval, self._now, self._send = run, namespace, interval, now, send
        self._pipeline = JobRun(namespace, run.pipeline, "PIPELINE")
        self._tables: dict[str, JobRun] = {}
        #: Tables whose run has failed, until they catch up.
        self._failed: set[str] = set()
        #: Id of a run → time of its last event, and the lineage in it.
        self._sent: dict[str, tuple[float, TableLineage | None]] = {}

    def add(self, event: RunEvent) -> None:
        """Send what an event means for the pipeline and its tables."""
        if self._pipeline.id not in self._sent:
            self._emit(self._pipeline, RunState.START, event.time)
        if event.kind in (RunEventKind.BATCH_COMMITTED, RunEventKind.BATCH_FAILED):
            if event.progress is not None:
                self._add_batch(event.progress, event.time)
        elif event.kind is RunEventKind.RUN_STOPPED:
            self._end(event.time, event.error)

    def _add_batch(self, progress: BatchProgress, time: float) -> None:
        lineage, tables = self._run.lineage(), defaultdict[str, list[TableProgress]](list)
        for one in progress.tables:
            tables[one.table].append(one)
        for table, found in tables.items():
            self._add_table(table, progress.batch, found, time, lineage)
        counts = self._pipeline.counts
        counts.batches, counts.last_batch = counts.batches + 1, progress.batch
        self._emit_running(self._pipeline, time, None)

    def _add_table(
        self,
        table: str,
        batch: int,
        progress: Sequence[TableProgress],
        time: float,
        lineages: Mapping[str, TableLineage],
    ) -> None:
        written = [one for one in progress if one.error is None]
        lineage = lineages.get(table)
        if not written and table in self._failed:
            return
        if table not in self._tables:
            self._tables[table] = JobRun(self._namespace, f"{self._run.pipeline}.{table}", "TABLE", self._pipeline)
            self._emit(self._tables[table], RunState.START, time, lineage=lineage)
        run = self._tables[table]
        if written:
            self._failed.discard(table)
            run.counts.add(batch, written)
            self._emit_running(run, time, lineage)
        else:
            self._failed.add(table)
            self._emit(self._tables.pop(table), RunState.FAIL, time, error=progress[0].error, lineage=lineage)

    def _emit_running(self, run: JobRun, time: float, lineage: TableLineage | None) -> None:
        """Send RUNNING with the counts, unless the last event is too new and has the same columns."""
        sent, known = self._sent[run.id]
        if run.counts.batches == 1 or lineage != known or self._now() - sent >= self._interval:
            self._emit(run, RunState.RUNNING, time, lineage=lineage)

    def _end(self, time: float, error: str | None) -> None:
        lineages = self._run.lineage()
        for table, run in self._tables.items():
            state = RunState.COMPLETE if error is None else RunState.ABORT
            self._emit(run, state, time, lineage=lineages.get(table))
        self._tables.clear()
        state = RunState.COMPLETE if error is None else RunState.FAIL
        self._emit(self._pipeline, state, time, error=error)

    def _emit(
        self,
        run: JobRun,
        state: RunState,
        time: float,
        *,
        error: str | None = None,
        lineage: TableLineage | None = None,
    ) -> None:
        if state in (RunState.START, RunState.RUNNING):
            self._sent[run.id] = self._now(), lineage
        else:
            self._sent.pop(run.id, None)
        self._send(run.make_event(state, time, error=error, lineage=lineage))
