"""Metrics: translated to Prometheus, they have the names and numbers of `serve`."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace_serve.serve import Serve
from tests.plugins.otel.doubles import ORDERS, STATUS, OtelRun, otel_run
from tests.plugins.serve.client import read_metrics

from headrace.engine.run.observers import Observers
from headrace.sdk.observer import BatchProgress, Maintained, RunEventKind


def translate(run: OtelRun) -> dict[str, float]:
    """Return the samples as the exporters of OpenTelemetry write them for Prometheus, without buckets of histograms."""
    found: dict[str, float] = {}
    data = run.observer.reader.get_metrics_data()  # type: ignore[attr-defined]
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        name = metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")
        name += "_total" if getattr(metric.data, "is_monotonic", False) else ""
        for point in metric.data.data_points:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted((point.attributes or {}).items()))
            suffix = f"{{{labels}}}" if labels else ""
            if hasattr(point, "bucket_counts"):
                found |= {f"{name}_count{suffix}": float(point.count), f"{name}_sum{suffix}": point.sum}
            else:
                found[f"{name}{suffix}"] = float(point.value)
    return found


def send(observers: Observers) -> None:
    """Send events of each kind with a number."""
    done = Maintained("shop.orders", "lake", "compact", "27 files", "9 files", seconds=2.0)
    people = replace(ORDERS, table="shop.people", rows_in=None, applied=None, late=None, superseded=None, reasons={})
    for batch, tables in enumerate(
        [(ORDERS, people), (ORDERS,), (replace(ORDERS, skipped=True), replace(people, error="x"))]
    ):
        progress = BatchProgress(
            "shop", batch, "2026-11-21T11:19:40.527+00:00", 0.8, tables, steps={"plan": 0.1, "write": 0.6}
        )
        observers.emit_batch(batch, progress)
    observers.emit(RunEventKind.BATCH_FAILED, batch=3, error="disk full")
    observers.emit(RunEventKind.MAINTENANCE_DONE, table="shop.orders", maintained=done)
    observers.emit(RunEventKind.MAINTENANCE_DONE, table="shop.orders", maintained=replace(done, error="conflict"))
    observers.emit(RunEventKind.TABLE_SET_ASIDE, table="shop.people", batch=3, error="disk full")
    for kind in (
        RunEventKind.RUN_RESTARTED,
        RunEventKind.SECRETS_RENEWED,
        RunEventKind.SCHEMA_CHANGED,
        RunEventKind.TABLE_CAUGHT_UP,
    ):
        observers.emit(kind, table="shop.people")


def test_names_and_numbers_equal_those_of_serve() -> None:
    serve, run = Serve(address="127.0.0.1:0"), OtelRun()
    observers, warnings = Observers([serve], str, print), run.warnings
    observers.open("shop", lambda: STATUS)
    observers.emit(RunEventKind.RUN_STARTED)
    try:
        send(observers)
        send(run.observers)
        assert observers.drain(10)
        assert run.observers.drain(10)
        served, found = read_metrics(serve.port), translate(run)
    finally:
        observers.end(None)
        run.end()
    # The name of the pipeline is a resource, and the process is not headrace's.
    other = re.compile(r"process_|headrace_pipeline_info|.*_bucket")
    expected = {name: value for name, value in served.items() if not other.match(name)}
    times = [name for name in expected if "timestamp" in name]
    assert {name for name in found if "timestamp" in name} == set(times)
    for name in times:
        del expected[name], found[name]
    # A counter of OpenTelemetry appears with its first event.
    assert {name: value for name, value in expected.items() if value or name in found} == found
    assert warnings == []


def test_histograms_have_buckets_of_seconds() -> None:
    with otel_run() as run:
        run.commit(0, ORDERS, replace(ORDERS, table="shop.people", latency_ms=-5000))
        found = run.read_metrics()
    points = found["headrace.table.latency"]
    point = points[("sink", "lake"), ("table", "shop.orders")]
    assert point.explicit_bounds[:3] == (0.5, 1.0, 2.5)
    assert (point.count, point.sum, point.bucket_counts[2]) == (1, 1.5, 1)
    assert points[("sink", "lake"), ("table", "shop.people")].sum == 0


def test_further_tables_are_added_up() -> None:
    with otel_run(**{"max.tables": 1}) as run:
        run.commit(0, ORDERS, replace(ORDERS, table="a"), replace(ORDERS, table="b"))
        found = run.read_metrics()
    rows = {
        dict(about)["table"]: point.value
        for about, point in found["headrace.table.rows"].items()
        if ("outcome", "applied") in about
    }
    assert rows == {"shop.orders": 6, "_other": 12}
    letters = {dict(about)["table"] for about in found["headrace.dead_letters"]}
    assert letters == {"shop.orders", "_other"}
    assert len(found["headrace.table.set_aside"]) == 1
