"""Providers of traces and metrics, with the exporters that the environment names."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)

from headrace_otel.otel_config import read_exporter

_UNKNOWN = "unknown_service"


@dataclass(frozen=True)
class Providers:
    """Providers of one run. They are not those of the process, which an application may use."""

    traces: TracerProvider
    metrics: MeterProvider

    def shutdown(self, seconds: float) -> bool:
        """Send what waits, and end the threads; return False if that takes longer than ``seconds``. It then goes on in the background."""
        milliseconds = seconds * 1000

        def end() -> None:
            with HIDDEN:
                self.metrics.shutdown(timeout_millis=milliseconds)

        def end_traces() -> None:
            with HIDDEN:
                self.traces.shutdown()

        # A collector that hangs holds both for several seconds.
        threads = [threading.Thread(target=each, name="headrace-otel-end", daemon=True) for each in (end, end_traces)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds / len(threads))
        return not any(thread.is_alive() for thread in threads)


def open_providers(pipeline: str, warn: Callable[[str], None]) -> Providers:
    """Open the exporters that the environment names. ``warn`` receives the begin and the end of an outage."""
    HIDDEN.install()
    spans, reader = _open_span_processor(warn), _open_reader(warn)
    return make_providers(pipeline, [spans] if spans else [], [reader] if reader else [])


def make_providers(pipeline: str, processors: Sequence[SpanProcessor], readers: Sequence[MetricReader]) -> Providers:
    """Return providers of a pipeline. The environment may name the service."""
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, _UNKNOWN)).startswith(_UNKNOWN):
        resource = resource.merge(Resource({SERVICE_NAME: "headrace"}))
    resource = resource.merge(Resource({"headrace.pipeline": pipeline}))
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    for processor in processors:
        traces.add_span_processor(processor)
    return Providers(traces, MeterProvider(readers, resource=resource, shutdown_on_exit=False))


def _open_span_processor(warn: Callable[[str], None]) -> SpanProcessor | None:
    kind = read_exporter("traces")
    if kind == "none":
        return None
    if kind == "console":
        return BatchSpanProcessor(ConsoleSpanExporter())
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpanProcessor(_WatchedSpanExporter(OTLPSpanExporter(), _Outage("traces", warn)))


def _open_reader(warn: Callable[[str], None]) -> MetricReader | None:
    kind = read_exporter("metrics")
    if kind == "none":
        return None
    if kind == "console":
        return PeriodicExportingMetricReader(ConsoleMetricExporter())
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter()
    return PeriodicExportingMetricReader(_WatchedMetricExporter(exporter, _Outage("metrics", warn)))


class _Outage:
    """Warnings about a collector: one when it begins to fail, and one when it accepts data again."""

    def __init__(self, what: str, warn: Callable[[str], None]) -> None:
        self._what, self._warn, self._is_down = what, warn, False

    def note(self, *, is_accepted: bool) -> None:
        """Record an attempt."""
        if is_accepted == self._is_down:
            self._is_down = not is_accepted
            text = (
                "accepts {} again"
                if is_accepted
                else "does not accept {}: check OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS"
            )
            self._warn(f"the collector {text.format(self._what)}")


class _WatchedSpanExporter(SpanExporter):
    """Exporter of spans whose failures are warnings of the run, without the address of the collector."""

    def __init__(self, exporter: SpanExporter, outage: _Outage) -> None:
        self._exporter, self._outage = exporter, outage

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with HIDDEN:
            try:
                result = self._exporter.export(spans)
            except Exception:  # noqa: BLE001 - the next export may succeed
                result = SpanExportResult.FAILURE
        self._outage.note(is_accepted=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _WatchedMetricExporter(MetricExporter):
    """Exporter of metrics whose failures are warnings of the run, without the address of the collector."""

    def __init__(self, exporter: MetricExporter, outage: _Outage) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)  # noqa: SLF001 - of the environment
        self._exporter, self._outage = exporter, outage

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        with HIDDEN:
            try:
                result = self._exporter.export(metrics_data, timeout_millis, **kwargs)
            except Exception:  # noqa: BLE001 - the next export may succeed
                result = MetricExportResult.FAILURE
        self._outage.note(is_accepted=result is MetricExportResult.SUCCESS)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)


class _HiddenMessages(logging.Filter):
    """Filter for messages of libraries in threads that export: they contain the collector's address, and one warning is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()

    def install(self) -> None:
        """Filter the messages of OpenTelemetry and of the HTTP client."""
        import opentelemetry.exporter.otlp.proto.http.metric_exporter
        import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: F401 - its logs

        for name in ("urllib3.connectionpool", *list(logging.root.manager.loggerDict)):
            if name.startswith(("opentelemetry.", "urllib3.")) and self not in (log := logging.getLogger(name)).filters:
                log.addFilter(self)

    def __enter__(self) -> None:
        self._local.is_hiding = True

    def __exit__(self, *error: object) -> None:
        self._local.is_hiding = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self._local, "is_hiding", False)


HIDDEN = _HiddenMessages()
