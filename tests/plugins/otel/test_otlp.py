"""OTLP over HTTP: a real server reads the data; one that fails delays no batch, and shows no secret."""

from __future__ import annotations

import logging
import time

import pytest
from headrace_otel.otel_observer import Otel
from tests.plugins.otel.doubles import ORDERS, OtelRun, OtlpServer
from tests.support.waiting import until

SECRET = "canary-4711"


def test_server_reads_spans_and_metrics(collector: OtlpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "lake-writer")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod")
    run = OtelRun(Otel())
    run.commit(0, ORDERS)
    run.end()
    assert run.warnings == []
    assert sorted(set(collector.span_names)) == [
        *("headrace.batch", "headrace.run", "headrace.step.measure", "headrace.step.plan", "headrace.step.write"),
        "headrace.table",
    ]
    assert {"headrace.table.rows", "headrace.table.lag", "headrace.batch"} <= collector.metric_names
    assert all(headers["api-key"] == SECRET for headers in collector.headers)
    resource = {one.key: one.value.string_value for one in collector.traces[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "lake-writer"
    assert resource["deployment.environment.name"] == "prod"
    assert resource["headrace.pipeline"] == "shop"
    (units,) = {
        metric.unit
        for request in collector.metrics
        for scope in request.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        if metric.name == "headrace.table.rows"
    }
    assert units == "{change}"


def test_signals_can_be_turned_off(collector: OtlpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    run = OtelRun(Otel())
    run.commit(0, ORDERS)
    run.end()
    assert (collector.span_names, bool(collector.metric_names)) == ([], True)


@pytest.mark.parametrize("status", [401, 500])
def test_failing_collector_is_one_warning_per_signal(
    collector: OtlpServer, status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    collector.status = status
    run = OtelRun(Otel())
    run.commit(0, ORDERS)
    until(lambda: len(run.warnings) == 2, "a warning per signal", 60)
    advice = "check OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS"
    assert sorted(run.warnings) == [
        f"otel: the collector does not accept {signal}: {advice}" for signal in ("metrics", "traces")
    ]
    collector.status = 200
    until(lambda: "otel: the collector accepts metrics again" in run.warnings, "the end of the outage", 60)
    run.commit(1, ORDERS)
    until(lambda: "otel: the collector accepts traces again" in run.warnings, "the end of the outage", 60)
    run.end()
    assert len(run.warnings) == 4
    assert caplog.text == ""


def test_collector_that_hangs_delays_no_batch_and_the_end_is_bounded(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
    collector.is_hanging = True
    run = OtelRun(Otel())
    began = time.monotonic()
    for batch in range(500):
        run.commit(batch, ORDERS)
    assert run.observers.drain(60)
    run.observers.end(None)
    assert time.monotonic() - began < 60  # A wait for the collector takes five minutes.
    assert "otel: the collector does not accept the last data in time" in run.warnings
    assert not [text for text in run.warnings if "does not close" in text]


def test_nothing_secret_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:{SECRET}@127.0.0.1:1/{SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
    caplog.set_level(logging.INFO)
    run = OtelRun(Otel())
    run.commit(0, ORDERS)
    time.sleep(1)
    run.observers.end("broken")
    out, err = capfd.readouterr()
    assert SECRET not in out + err + caplog.text + str(run.warnings)
