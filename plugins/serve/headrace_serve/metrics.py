"""Metrics in Prometheus' text format. Numbers that the engine does not report are absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.sdk.observer import ObservedRun, RunEventKind, Status, TableStatus
from headrace_serve.run_record import RunRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_TABLE = ("table", "sink")

#: Name → its description and the value of a table's status.
_TABLE_GAUGES: dict[str, tuple[str, Callable[[TableStatus], float | None]]] = {
    "headrace_table_lag_records": (
        "Records that waited in the source after the last batch of the table.",
        lambda table: table.lag,
    ),
    "headrace_table_lag_seconds": (
        "Minimum delay of the table: 0 if no record waits.",
        lambda table: None if table.lag_seconds is None else max(table.lag_seconds, 0.0),
    ),
    "headrace_table_last_latency_seconds": (
        "Time from the commit in the database to the readable row, of the newest change of the last batch.",
        lambda table: None if table.latency_ms is None else table.latency_ms / 1000,
    ),
    "headrace_table_set_aside": (
        "1 if the table is set aside after an error and catches up later, otherwise 0.",
        lambda table: float(table.error is not None),
    ),
    "headrace_table_backlog_batches": (
        "Batches that a table that is set aside still has to apply.",
        lambda table: 0 if table.error is None else table.backlog,
    ),
}
#: Name → its description and its kind of event.
_EVENT_COUNTERS = {
    "headrace_restarts": ("Times that the source was read again after an error.", RunEventKind.RUN_RESTARTED),
    "headrace_secrets_renewed": (
        "Times that references had new values after a failed login.",
        RunEventKind.SECRETS_RENEWED,
    ),
    "headrace_schema_changes": ("Replaced schemas of topics.", RunEventKind.SCHEMA_CHANGED),
    "headrace_tables_set_aside": ("Times that a table was set aside.", RunEventKind.TABLE_SET_ASIDE),
    "headrace_tables_caught_up": ("Times that a table has caught up.", RunEventKind.TABLE_CAUGHT_UP),
}


class Metrics(Collector):
    """Metrics of a run."""

    def __init__(self, run: ObservedRun, record: RunRecord, status: Callable[[], Status], max_tables: int) -> None:
        self._run, self._record, self._status, self._max_tables = run, record, status, max_tables
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """Return the metrics as text."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Return no metric: the registry must not collect at registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        status = self._status()
        with self._record.hold():
            found = [*self._collect_run(status), *self._collect_tables(), *self._collect_work()]
        yield from found
        yield from self._collect_status(status)

    def _collect_run(self, status: Status) -> Iterator[Metric]:
        info = GaugeMetricFamily("headrace_pipeline_info", "Name of the pipeline.", labels=["pipeline"])
        info.add_metric([self._run.pipeline], 1)
        yield info
        yield GaugeMetricFamily("headrace_run_active", "1 while the engine runs, otherwise 0.", float(status.active))
        yield GaugeMetricFamily(
            "headrace_source_failing",
            "1 while an unreachable source or sink is tried again, otherwise 0.",
            float(status.error is not None),
        )
        dropped = "Events that are missing in the other counters, because the process was too busy."
        yield CounterMetricFamily("headrace_events_dropped", dropped, self._run.count_dropped())

    def _collect_tables(self) -> Iterator[Metric]:
        record = self._record
        rows = CounterMetricFamily(
            "headrace_table_rows", "Changes by outcome, after their commit.", labels=[*_TABLE, "outcome"]
        )
        seconds = CounterMetricFamily("headrace_table_write_seconds", "Time to write the table.", labels=_TABLE)
        success = GaugeMetricFamily(
            "headrace_table_last_success_timestamp_seconds", "Time of the last commit of the table.", labels=_TABLE
        )
        latency = HistogramMetricFamily(
            "headrace_table_latency_seconds",
            "Time from the commit in the database to the readable row, of the newest change of each batch.",
            labels=_TABLE,
        )
        for name, table in record.tables.items():
            for outcome, count in table.rows.items():
                rows.add_metric([*name, outcome], count)
            seconds.add_metric(name, table.seconds)
            if table.latency.count:
                latency.add_metric(name, table.latency.buckets, table.latency.sum)
            if table.last_success is not None:
                success.add_metric(name, table.last_success)
        letters = CounterMetricFamily(
            "headrace_dead_letters", "Records that could not become a row.", labels=["table", "reason"]
        )
        for key, count in record.dead_letters.items():
            letters.add_metric(key, count)
        yield from (rows, seconds, success, latency, letters)

    def _collect_work(self) -> Iterator[Metric]:
        record, counts = self._record, self._record.counts
        batches = CounterMetricFamily("headrace_batches", "Batches by result.", labels=["result"])
        batches.add_metric(["committed"], counts[RunEventKind.BATCH_COMMITTED])
        batches.add_metric(["failed"], counts[RunEventKind.BATCH_FAILED])
        duration = HistogramMetricFamily("headrace_batch_seconds", "Duration of batches whose tables were processed.")
        duration.add_metric([], record.batch_seconds.buckets, record.batch_seconds.sum)
        parts = CounterMetricFamily("headrace_batch_step_seconds", "Time of batches by step.", labels=["step"])
        for step, spent in record.step_seconds.items():
            parts.add_metric([step], spent)
        steps = CounterMetricFamily(
            "headrace_maintenance_steps", "Maintenance steps by result.", labels=["step", "result"]
        )
        for key, count in record.maintenance.items():
            steps.add_metric(key, count)
        seconds = CounterMetricFamily("headrace_maintenance_seconds", "Time of maintenance steps.", labels=["step"])
        for step, spent in record.maintenance_seconds.items():
            seconds.add_metric([step], spent)
        yield from (batches, duration, parts, steps, seconds)
        for name, (text, kind) in _EVENT_COUNTERS.items():
            yield CounterMetricFamily(name, text, counts[kind])

    def _collect_status(self, status: Status) -> Iterator[Metric]:
        families: dict[str, Any] = {
            name: GaugeMetricFamily(name, text, labels=_TABLE) for name, (text, _) in _TABLE_GAUGES.items()
        }
        stages = GaugeMetricFamily(
            "headrace_table_last_stage_seconds",
            "Part of the latency of the newest change of the last batch: from its commit to the record's time in the transport, to "
            "the begin of the write, to the readable row.",
            labels=[*_TABLE, "stage"],
        )
        for table in status.tables[: self._max_tables]:
            for stage, milliseconds in table.stages_ms.items():
                stages.add_metric((table.table, table.sink, stage), milliseconds / 1000)
            for name, (_, read) in _TABLE_GAUGES.items():
                value = read(table)
                if value is not None:
                    families[name].add_metric((table.table, table.sink), value)
        yield from (*families.values(), stages)
        yield GaugeMetricFamily("headrace_tables", "Tables and sinks of the run.", len(status.tables))
