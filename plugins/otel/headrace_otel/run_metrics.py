"""Metrics of a run. Translated to Prometheus, their names are those of ``serve:``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from headrace.sdk.observer import BatchProgress, ObservedRun, RunEvent, RunEventKind, Status, TableProgress, TableStatus

#: Names of a table and a sink; the name of those beyond the limit.
TableInSink = tuple[str, str]
OTHER = "_other"
LATENCY_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
BATCH_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
_OUTCOMES = ("applied", "late", "superseded", "filtered", "dropped")
#: Name → its unit, its description, and its kind of event.
_EVENT_COUNTERS = {
    "headrace.restarts": (
        "{restart}",
        "Times that the source was read again after an error.",
        RunEventKind.RUN_RESTARTED,
    ),
    "headrace.secrets.renewed": (
        "{renewal}",
        "Times that references had new values after a failed login.",
        RunEventKind.SECRETS_RENEWED,
    ),
    "headrace.schema.changes": ("{change}", "Replaced schemas of topics.", RunEventKind.SCHEMA_CHANGED),
    "headrace.tables.set_aside": ("{table}", "Times that a table was set aside.", RunEventKind.TABLE_SET_ASIDE),
    "headrace.tables.caught_up": ("{table}", "Times that a table has caught up.", RunEventKind.TABLE_CAUGHT_UP),
}
#: Name → its unit, its description, and the value of a table's status.
_TABLE_GAUGES: dict[str, tuple[str, str, Callable[[TableStatus], float | None]]] = {
    "headrace.table.lag.records": (
        "{record}",
        "Records that waited in the source after the last batch of the table.",
        lambda table: table.lag,
    ),
    "headrace.table.lag": (
        "s",
        "Minimum delay of the table: 0 if no record waits.",
        lambda table: None if table.lag_seconds is None else max(table.lag_seconds, 0.0),
    ),
    "headrace.table.last_latency": (
        "s",
        "Time from the commit in the database to the readable row, of the newest change of the last batch.",
        lambda table: None if table.latency_ms is None else table.latency_ms / 1000,
    ),
    "headrace.table.set_aside": (
        "",
        "1 if the table is set aside after an error and catches up later, otherwise 0.",
        lambda table: float(table.error is not None),
    ),
    "headrace.table.backlog.batches": (
        "{batch}",
        "Batches that a table that is set aside still has to apply.",
        lambda table: 0 if table.error is None else table.backlog,
    ),
}


class RunMetrics:
    """Metrics of one run: counters from its events, gauges from its status at the time of an export."""

    def __init__(self, meter: Meter, run: ObservedRun, max_tables: int) -> None:
        self._run, self._max_tables = run, max_tables
        #: Table and sink → time of the last commit, in seconds since 1970.
        self._last_success: dict[TableInSink, float] = {}
        self._events = {
            kind: meter.create_counter(name, unit, text) for name, (unit, text, kind) in _EVENT_COUNTERS.items()
        }
        self._make_counters(meter)
        self._make_gauges(meter)

    def _make_counters(self, meter: Meter) -> None:
        def count(name: str, unit: str, text: str) -> Counter:
            return meter.create_counter(name, unit, text)

        def measure(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=bounds)

        self._rows = count("headrace.table.rows", "{change}", "Changes by outcome, after their commit.")
        self._write = count("headrace.table.write", "s", "Time to write the table.")
        self._letters = count("headrace.dead_letters", "{record}", "Records that could not become a row.")
        self._batches = count("headrace.batches", "{batch}", "Batches by result.")
        self._steps = count("headrace.batch.step", "s", "Time of batches by step.")
        self._maintained = count("headrace.maintenance.steps", "{step}", "Maintenance steps by result.")
        self._maintenance = count("headrace.maintenance", "s", "Time of maintenance steps.")
        latency = "Time from the commit in the database to the readable row, of the newest change of each batch."
        self._latency = measure("headrace.table.latency", latency, LATENCY_BOUNDS)
        self._batch = measure("headrace.batch", "Duration of batches whose tables were processed.", BATCH_BOUNDS)

    def _make_gauges(self, meter: Meter) -> None:
        def observe(name: str, unit: str, text: str, read: Callable[[Status], Iterable[Observation]]) -> None:
            def callback(_: CallbackOptions) -> Iterable[Observation]:
                return list(read(self._run.status()))

            meter.create_observable_gauge(name, [callback], unit, text)

        observe(
            "headrace.run.active", "", "1 while the engine runs, otherwise 0.", lambda s: [Observation(int(s.active))]
        )
        failing = "1 while an unreachable source or sink is tried again, otherwise 0."
        observe("headrace.source.failing", "", failing, lambda s: [Observation(int(s.error is not None))])
        observe("headrace.tables", "{table}", "Tables and sinks of the run.", lambda s: [Observation(len(s.tables))])
        for name, (unit, text, read) in _TABLE_GAUGES.items():
            observe(name, unit, text, lambda s, read=read: self._observe_tables(s, read))  # type: ignore[misc]
        stage = "Part of the latency of the newest change of the last batch."
        observe("headrace.table.last_stage", "s", stage, self._observe_stages)
        success = "Time of the last commit of the table."
        observe("headrace.table.last_success.timestamp", "s", success, self._observe_success)
        dropped = "Events that are missing in the other counters, because the process was too busy."
        meter.create_observable_counter(
            "headrace.events.dropped", [lambda options: [Observation(self._run.count_dropped())]], "{event}", dropped
        )

    def add(self, event: RunEvent) -> None:
        """Add an event."""
        if counter := self._events.get(event.kind):
            counter.add(1)
        elif event.kind in (RunEventKind.BATCH_COMMITTED, RunEventKind.BATCH_FAILED):
            result = "committed" if event.kind is RunEventKind.BATCH_COMMITTED else "failed"
            self._batches.add(1, {"result": result})
            if event.progress is not None:
                self._add_batch(event.progress, event.time)
        elif event.kind is RunEventKind.DEAD_LETTERS_WRITTEN:
            is_known = any(table == event.table for table, _ in self._last_success)
            for reason, number in event.counts.items():
                self._letters.add(number, {"table": str(event.table) if is_known else OTHER, "reason": reason})
        elif event.maintained is not None:
            done = event.maintained
            result = "failed" if done.error is not None else "done"
            self._maintained.add(1, {"step": done.step, "result": result})
            self._maintenance.add(max(done.seconds, 0.0), {"step": done.step})

    def _add_batch(self, progress: BatchProgress, time: float) -> None:
        self._batch.record(max(progress.seconds, 0.0))
        for step, seconds in progress.steps.items():
            self._steps.add(max(seconds, 0.0), {"step": step})
        for table in progress.tables:
            if table.error is None:
                self._add_table(table, time)

    def _add_table(self, table: TableProgress, time: float) -> None:
        """Add a committed table. A table that an earlier attempt has written counts no rows."""
        name = (table.table, table.sink)
        if name not in self._last_success and len(self._last_success) >= self._max_tables:
            name = (OTHER, OTHER)
        self._last_success[name] = time
        about = _describe(name)
        self._write.add(max(table.seconds, 0.0), about)
        if table.skipped:
            return
        for outcome in _OUTCOMES:
            count = getattr(table, outcome)
            if count is not None:
                self._rows.add(count, {**about, "outcome": outcome})
        if table.latency_ms is not None:
            self._latency.record(max(table.latency_ms / 1000, 0.0), about)

    def _observe_tables(self, status: Status, read: Callable[[TableStatus], float | None]) -> Iterable[Observation]:
        for table in status.tables[: self._max_tables]:
            if (value := read(table)) is not None:
                yield Observation(value, _describe((table.table, table.sink)))

    def _observe_stages(self, status: Status) -> Iterable[Observation]:
        for table in status.tables[: self._max_tables]:
            for stage, milliseconds in table.stages_ms.items():
                yield Observation(milliseconds / 1000, {**_describe((table.table, table.sink)), "stage": stage})

    def _observe_success(self, status: Status) -> Iterable[Observation]:
        return [Observation(time, _describe(name)) for name, time in list(self._last_success.items())]


def _describe(name: TableInSink) -> dict[str, Any]:
    return {"table": name[0], "sink": name[1]}
