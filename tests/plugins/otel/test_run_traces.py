"""Spans: one for the run, and a trace for each batch with its steps and tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from tests.plugins.otel.doubles import ORDERS, STARTED, OtelRun, otel_run

from headrace.sdk.observer import Maintained, RunEventKind

BEGAN = round(datetime.fromisoformat(STARTED).timestamp() * 1000)
SECRET = "canary-4711"


def find(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def times(span: ReadableSpan) -> tuple[int, int]:
    """Return the start and the end in milliseconds after the start of the batch."""
    assert span.start_time is not None
    assert span.end_time is not None
    return round(span.start_time / 1e6) - BEGAN, round(span.end_time / 1e6) - BEGAN


def test_batch_is_a_trace_with_steps_and_tables() -> None:
    with otel_run() as run:
        run.observers.emit(RunEventKind.BATCH_STARTED, batch=7)
        run.commit(7, ORDERS)
        spans = run.read_spans()
    names = ["headrace.batch", "headrace.step.measure", "headrace.step.plan", "headrace.step.write", "headrace.table"]
    assert sorted(span.name for span in spans) == names
    batch, write = find(spans, "headrace.batch"), find(spans, "headrace.step.write")
    assert batch.parent is None
    assert {span.context.trace_id for span in spans} == {batch.context.trace_id}
    assert [times(find(spans, name)) for name in names] == [(0, 800), (700, 750), (0, 100), (100, 700), (100, 600)]
    table = find(spans, "headrace.table")
    assert write.parent
    assert table.parent
    assert (write.parent.span_id, table.parent.span_id) == (batch.context.span_id, write.context.span_id)
    about = dict(table.attributes or {})
    assert (about["headrace.table"], about["headrace.sink"], about["headrace.pipeline"]) == (
        "shop.orders",
        "lake",
        "shop",
    )
    assert (about["headrace.rows_in"], about["headrace.applied"], about["headrace.latency"]) == (10, 6, 1.5)
    assert about["headrace.stage.transport"] == 0.5
    assert "headrace.lag" not in about  # It is unknown.
    assert (batch.attributes or {})["headrace.batch"] == 7


def test_batches_link_to_the_run() -> None:
    run = OtelRun()
    run.commit(0, ORDERS)
    run.observers.emit(RunEventKind.SCHEMA_CHANGED, topic="db.orders")
    run.observers.emit(RunEventKind.RUN_RESTARTED, error="broker: connection refused")
    run.end()
    spans = run.read_spans()
    whole, batch = find(spans, "headrace.run"), find(spans, "headrace.batch")
    assert [link.context.span_id for link in batch.links] == [whole.context.span_id]
    assert batch.context.trace_id != whole.context.trace_id
    assert [(event.name, dict(event.attributes or {})) for event in whole.events] == [
        ("headrace.schema_changed", {"headrace.topic": "db.orders"}),
        ("headrace.run_restarted", {"exception.message": "broker: connection refused"}),
    ]
    assert whole.status.status_code is StatusCode.UNSET
    assert whole.resource.attributes["service.name"] == "headrace"
    assert whole.resource.attributes["headrace.pipeline"] == "shop"


def test_errors_are_statuses_without_values_of_rows() -> None:
    run = OtelRun()
    text = f"[CAST_INVALID_INPUT] The value '{SECRET}' of the type STRING"
    run.commit(0, ORDERS, replace(ORDERS, table="shop.people", error=text), error=text)
    run.observers.emit(RunEventKind.BATCH_STARTED, batch=1)
    run.observers.emit(RunEventKind.BATCH_FAILED, batch=1, error=text)
    run.observers.emit(RunEventKind.TABLE_SET_ASIDE, batch=1, table="shop.people", error=text)
    run.end(text)
    spans = run.read_spans()
    failed = [span for span in spans if span.status.status_code is StatusCode.ERROR]
    assert sorted(span.name for span in failed) == [
        "headrace.batch",
        "headrace.batch",
        "headrace.run",
        "headrace.table",
    ]
    assert {span.status.description for span in failed} == {"[CAST_INVALID_INPUT] The value '…' of the type STRING"}
    assert SECRET not in str([span.to_json() for span in spans])
    for span in failed:
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


def test_maintenance_is_a_span() -> None:
    with otel_run() as run:
        done = Maintained("shop.orders", "lake", "compact", "27 files", "9 files", seconds=2.0)
        run.observers.emit(RunEventKind.MAINTENANCE_DONE, table="shop.orders", maintained=done)
        span = find(run.read_spans(), "headrace.maintenance")
    start, end = times(span)
    assert end - start in (1999, 2000, 2001)
    assert (span.attributes or {})["headrace.maintenance.step"] == "compact"
