"""Spans of a run, its batches, and their steps and tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from headrace.sdk.error_text import hide_values
from headrace.sdk.observer import BatchProgress, RunEvent, RunEventKind, TableProgress

#: Attribute → field of a table's progress. Those that are unknown are left out.
_COUNTS = {
    "headrace.rows_in": "rows_in",
    "headrace.applied": "applied",
    "headrace.late": "late",
    "headrace.superseded": "superseded",
    "headrace.filtered": "filtered",
    "headrace.dead_letters": "dead_letters",
    "headrace.dropped": "dropped",
    "headrace.lag": "lag",
    "headrace.bytes": "bytes",
    "headrace.table.version": "version",
}
_BATCH, _WRITE = "headrace.batch", "write"


class RunTraces:
    """Traces of one run. Each batch is a trace with a link to the span of the run, which may last for months."""

    def __init__(self, tracer: Tracer, pipeline: str) -> None:
        self._tracer, self._pipeline = tracer, pipeline
        self._run: Span | None = None
        #: Number and start of the batch in progress.
        self._began: tuple[int | None, float] | None = None

    def add(self, event: RunEvent) -> None:
        """Add an event."""
        if self._run is None:
            self._run = self._start("headrace.run", event.time)
        if event.kind is RunEventKind.BATCH_STARTED:
            self._began = event.batch, event.time
        elif event.kind in (RunEventKind.BATCH_COMMITTED, RunEventKind.BATCH_FAILED):
            self._add_batch(event)
        elif event.kind is RunEventKind.RUN_STOPPED:
            _end(self._run, event.time, event.error)
        elif event.maintained is not None:
            self._add_maintenance(event)
        elif event.kind not in (RunEventKind.RUN_STARTED, RunEventKind.DEAD_LETTERS_WRITTEN):
            self._note(self._run, event)

    def _note(self, run: Span, event: RunEvent) -> None:
        """Add an event to the span of the run. The spans of tables have the numbers of dead letters."""
        about = {"headrace.table": event.table, "headrace.topic": event.topic, _BATCH: event.batch}
        if event.error is not None:
            about["exception.message"] = hide_values(event.error)
        given = {name: value for name, value in about.items() if value is not None}
        run.add_event(f"headrace.{event.kind.value.replace(' ', '_')}", given, _nanoseconds(event.time))

    def _add_batch(self, event: RunEvent) -> None:
        progress, began = event.progress, self._began
        is_current = began is not None and began[0] == event.batch
        start = _seconds(progress.started) if progress else began[1] if began and is_current else event.time
        end = start + progress.seconds if progress else max(event.time, start)
        self._began = None if is_current else began
        span = self._start(_BATCH, start, {_BATCH: event.batch})
        if progress is not None:
            self._add_parts(span, progress, start)
        _end(span, end, event.error)

    def _add_parts(self, batch: Span, progress: BatchProgress, start: float) -> None:
        """Add the steps, one after the other, and the tables below the step that writes them."""
        parent, writing, began = batch, start, start
        for step, seconds in progress.steps.items():
            span = self._start(f"headrace.step.{step}", began, parent=batch)
            if step == _WRITE:
                parent, writing = span, began
            began += seconds
            _end(span, began)
        for table in progress.tables:
            self._add_table(parent, table, writing)

    def _add_table(self, parent: Span, table: TableProgress, start: float) -> None:
        about: dict[str, str | int | float | bool | None] = {
            "headrace.table": table.table,
            "headrace.sink": table.sink,
            "headrace.skipped": table.skipped,
            **{name: getattr(table, field) for name, field in _COUNTS.items()},
            **{f"headrace.stage.{stage}": milliseconds / 1000 for stage, milliseconds in table.stages_ms.items()},
        }
        if table.latency_ms is not None:
            about["headrace.latency"] = table.latency_ms / 1000
        _end(self._start("headrace.table", start, about, parent), start + table.seconds, table.error)

    def _add_maintenance(self, event: RunEvent) -> None:
        assert event.maintained
        done = event.maintained
        about = {"headrace.table": done.table, "headrace.sink": done.sink, "headrace.maintenance.step": done.step}
        _end(self._start("headrace.maintenance", event.time - done.seconds, about), event.time, done.error)

    def _start(
        self,
        name: str,
        time: float,
        about: Mapping[str, str | int | float | bool | None] | None = None,
        parent: Span | None = None,
    ) -> Span:
        given = {"headrace.pipeline": self._pipeline, **(about or {})}
        return self._tracer.start_span(
            name,
            context=trace.set_span_in_context(parent or trace.INVALID_SPAN),
            kind=SpanKind.INTERNAL,
            attributes={key: value for key, value in given.items() if value is not None},
            links=[Link(self._run.get_span_context())] if self._run and not parent else [],
            start_time=_nanoseconds(time),
        )


def _end(span: Span, time: float, error: str | None = None) -> None:
    if error is not None:
        # Spark's messages may quote values of rows.
        span.set_status(Status(StatusCode.ERROR, hide_values(error)))
    span.end(_nanoseconds(time))


def _seconds(started: str) -> float:
    return datetime.fromisoformat(started).timestamp()


def _nanoseconds(seconds: float) -> int:
    return max(round(seconds * 1e9), 0)
