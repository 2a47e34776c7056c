"""Run without Spark that `otel` observes, and a collector that reads OTLP."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from headrace_otel.exporters import make_providers
from headrace_otel.otel_observer import Otel
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.local_server import LocalServer

from headrace.engine.run.observers import Observers
from headrace.progress.rates import TableStatus
from headrace.sdk import ObservedRun
from headrace.sdk.observer import BatchProgress, RunEventKind, Status, TableProgress

STARTED = "2026-11-21T11:19:40.527+00:00"
ORDERS = TableProgress(
    "shop.orders",
    "lake",
    rows_in=10,
    applied=6,
    late=1,
    superseded=1,
    filtered=1,
    dead_letters=3,
    reasons={"key-missing": 2, "too-large": 1},
    latency_ms=1500,
    stages_ms={"transport": 500, "read": 400, "write": 600},
    seconds=0.5,
)
STEPS = {"plan": 0.1, "write": 0.6, "measure": 0.05}
STATUS = Status(
    True,
    "waiting for data",
    0,
    None,
    (
        TableStatus("shop.orders", "lake", latency_ms=1500, stages_ms={"write": 600}, lag=3, lag_seconds=2.5),
        TableStatus("shop.people", "lake", error="disk full", backlog=7),
    ),
    has_answered=True,
)


class OtelInMemory(Otel):
    """Observer whose spans and metrics stay in memory."""

    name = "otel_in_memory"

    def open(self, run: ObservedRun) -> None:
        self.spans, self.reader, self._warn = InMemorySpanExporter(), InMemoryMetricReader(), run.warn
        self._observe_with(make_providers(run.pipeline, [SimpleSpanProcessor(self.spans)], [self.reader]), run)

    def read_metrics(self) -> dict[str, dict[tuple[tuple[str, Any], ...], Any]]:
        """Return name → attributes → data point."""
        data = self.reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data and data.resource_metrics else []
        return {
            metric.name: {tuple(sorted((point.attributes or {}).items())): point for point in metric.data.data_points}
            for metric in metrics
        }


@dataclass
class OtelRun:
    """Run whose status tests set, and whose events they send."""

    observer: Otel = field(default_factory=OtelInMemory)
    status: Status = STATUS
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observers = Observers([self.observer], str, self.warnings.append)
        self.observers.open("shop", lambda: self.status)
        self.observers.emit(RunEventKind.RUN_STARTED)

    def commit(
        self, batch: int, *tables: TableProgress, error: object = None, steps: Mapping[str, float] = STEPS
    ) -> None:
        """Send a batch. ``error``: why it failed."""
        progress = BatchProgress("shop", batch, STARTED, 0.8, tables, steps=dict(steps))
        self.observers.emit_batch(batch, progress, error)

    def read_spans(self) -> list[ReadableSpan]:
        """Return the spans that have ended."""
        assert self.observers.drain(10)
        assert isinstance(self.observer, OtelInMemory)
        return list(self.observer.spans.get_finished_spans())

    def read_metrics(self) -> dict[str, dict[tuple[tuple[str, Any], ...], Any]]:
        """Return the metrics after all events."""
        assert self.observers.drain(10)
        assert isinstance(self.observer, OtelInMemory)
        return self.observer.read_metrics()

    def end(self, error: object = None) -> None:
        """End the run."""
        assert self.observers.drain(10)
        self.observers.end(error)


@contextmanager
def otel_run(**options: Any) -> Iterator[OtelRun]:
    """Yield a run whose data stays in memory."""
    run = OtelRun(OtelInMemory(options))
    try:
        yield run
    finally:
        run.end()
        assert run.warnings == []


class OtlpServer(LocalServer):
    """Collector that reads OTLP, and answers with a status, a page, or not at all."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.status, self.is_hanging, self.released = 200, False, threading.Event()
        self.headers: list[Mapping[str, str]] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []

    @property
    def span_names(self) -> list[str]:
        """Names of the spans."""
        scopes = (scope for request in self.traces for one in request.resource_spans for scope in one.scope_spans)
        return [span.name for scope in scopes for span in scope.spans]

    @property
    def metric_names(self) -> set[str]:
        """Names of the metrics."""
        scopes = (scope for request in self.metrics for one in request.resource_metrics for scope in one.scope_metrics)
        return {metric.name for scope in scopes for metric in scope.metrics}

    def __exit__(self, *error: object) -> None:
        self.released.set()
        super().__exit__(*error)


class _Handler(BaseHTTPRequestHandler):
    server: OtlpServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.headers.append(dict(self.headers))
        if server.is_hanging:
            server.released.wait(300)
            return
        if server.status == 200:
            assert self.headers["Content-Type"] == "application/x-protobuf"
            if self.path == "/v1/traces":
                server.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                server.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Log nothing."""
