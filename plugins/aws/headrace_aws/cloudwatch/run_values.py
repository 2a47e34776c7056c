"""Values of a run since the last request, in the form of CloudWatch's ``PutMetricData``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.sdk.observer import RunEvent, RunEventKind, Status, TableProgress

#: Names of a table and a sink; both are empty for the whole pipeline.
TableInSink = tuple[str, str]
_PIPELINE: TableInSink = ("", "")
#: Metric → the count of a table's progress.
_ROWS = {
    "RowsApplied": "applied",
    "RowsLate": "late",
    "RowsSuperseded": "superseded",
    "RowsFiltered": "filtered",
    "RowsDropped": "dropped",
    "DeadLetters": "dead_letters",
}
#: Metric → the event that it counts.
_EVENTS = {
    "FailedBatches": RunEventKind.BATCH_FAILED,
    "Batches": RunEventKind.BATCH_COMMITTED,
    "Restarts": RunEventKind.RUN_RESTARTED,
    "SchemaChanges": RunEventKind.SCHEMA_CHANGED,
    "MaintenanceSteps": RunEventKind.MAINTENANCE_DONE,
}
#: Different values of one metric in a request, a limit of CloudWatch.
_MOST_VALUES = 150


class RunValues:
    """Counts and times of a run since the last ``take``. Used by one thread at a time.

    ``max_tables``: tables and sinks with values of their own. The values of the pipeline include all tables.
    """

    def __init__(self, pipeline: str, max_tables: int) -> None:
        self._pipeline, self._max_tables = pipeline, max_tables
        self._tables: set[TableInSink] = set()
        self._counts: Counter[tuple[TableInSink, str]] = Counter()
        #: Table and metric → seconds → how often they were measured.
        self._seconds: dict[tuple[TableInSink, str], Counter[float]] = {}

    def add(self, event: RunEvent) -> None:
        """Add an event."""
        for metric, kind in _EVENTS.items():
            self._counts[_PIPELINE, metric] += event.kind is kind
        if event.progress is not None and event.kind in (RunEventKind.BATCH_COMMITTED, RunEventKind.BATCH_FAILED):
            self._add_seconds(_PIPELINE, "BatchSeconds", event.progress.seconds)
            for table in event.progress.tables:
                if table.error is None and not table.skipped:
                    self._add_table(table)

    def take(self, status: Status, time: float) -> list[dict[str, Any]]:
        """Return the metrics for a request, with those of the status, and forget the counts. ``time``: seconds since 1970."""
        found = [*self._list_gauges(status), *self._list_sums(), *self._list_seconds()]
        self._counts.clear()
        self._seconds.clear()
        at = datetime.fromtimestamp(time, UTC)
        return [{"Timestamp": at, **metric} for metric in found]

    def _add_table(self, table: TableProgress) -> None:
        for name in self._names_of(table.table, table.sink):
            for metric, field in _ROWS.items():
                self._counts[name, metric] += getattr(table, field) or 0
            if table.latency_ms is not None:
                self._add_seconds(name, "LatencySeconds", table.latency_ms / 1000)

    def _names_of(self, table: str, sink: str) -> Iterable[TableInSink]:
        """Return the names under which the values of a table are counted."""
        name = (table, sink)
        if name not in self._tables and len(self._tables) < self._max_tables:
            self._tables.add(name)
        return (_PIPELINE, name) if name in self._tables else (_PIPELINE,)

    def _add_seconds(self, name: TableInSink, metric: str, seconds: float) -> None:
        values = self._seconds.setdefault((name, metric), Counter())
        # Two digits are enough for percentiles, and keep the number of different values low.
        rounded = float(f"{max(seconds, 0.0):.2g}")
        if rounded not in values and len(values) == _MOST_VALUES:
            rounded = min(values, key=lambda value: abs(value - rounded))
        values[rounded] += 1

    def _list_sums(self) -> Iterator[dict[str, Any]]:
        # An alarm on the pipeline needs zeros; a table without changes has no value.
        counts: Mapping[tuple[TableInSink, str], int] = {
            **{(_PIPELINE, metric): 0 for metric in (*_EVENTS, *_ROWS)},
            **{place: count for place, count in self._counts.items() if count},
        }
        for (name, metric), count in counts.items():
            yield self._describe(name, metric, "Count", Value=count)

    def _list_seconds(self) -> Iterator[dict[str, Any]]:
        for (name, metric), values in self._seconds.items():
            yield self._describe(name, metric, "Seconds", Values=[*values], Counts=[*map(float, values.values())])

    def _list_gauges(self, status: Status) -> Iterator[dict[str, Any]]:
        gauges: dict[tuple[TableInSink, str], float] = {
            (_PIPELINE, "Active"): int(status.active),
            (_PIPELINE, "SourceFailing"): int(status.error is not None),
            (_PIPELINE, "TablesSetAside"): sum(table.error is not None for table in status.tables),
        }
        for table in status.tables:
            own = {"LagRecords": table.lag, "LagSeconds": table.lag_seconds, "SetAside": int(table.error is not None)}
            for name in self._names_of(table.table, table.sink):
                for metric, value in own.items():
                    if value is not None and (name != _PIPELINE or metric == "LagSeconds"):
                        # The pipeline is as late as its latest table.
                        gauges[name, metric] = max(gauges.get((name, metric), 0.0), value)
        for (name, metric), value in gauges.items():
            yield self._describe(name, metric, "Seconds" if metric == "LagSeconds" else "Count", Value=value)

    def _describe(self, name: TableInSink, metric: str, unit: str, **value: Any) -> dict[str, Any]:
        about = {"Pipeline": self._pipeline, **(dict(zip(("Table", "Sink"), name, strict=True)) if any(name) else {})}
        dimensions = [{"Name": key, "Value": text[:1024]} for key, text in about.items()]
        return {"MetricName": metric, "Dimensions": dimensions, "Unit": unit, **value}
