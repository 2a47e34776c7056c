"""Metrics: names by convention, counts after their commit, and no number that the engine does not report."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from headrace_serve.histogram import Histogram
from headrace_serve.run_record import KEPT
from tests.plugins.serve.client import ORDERS, RUNNING, ServedRun, parse_metrics, read_metrics, request, serve_run

from headrace.sdk.observer import Maintained, RunEventKind, TableProgress, TableStatus

TABLE = '{sink="lake",table="shop.orders"}'
ONE = TableProgress(
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
    seconds=0.5,
)


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with serve_run() as run:
        yield run


def outcome(name: str) -> str:
    return f'headrace_table_rows_total{{outcome="{name}",sink="lake",table="shop.orders"}}'


def test_counts_equal_the_committed_batches(run: ServedRun) -> None:
    run.observers.emit(RunEventKind.BATCH_STARTED, batch=0)
    before = run.metrics()
    assert not [name for name in before if "rows_total" in name]
    assert before['headrace_batches_total{result="committed"}'] == 0
    began = time.time()
    run.commit(0, ONE)
    run.commit(1, replace(ONE, applied=4, reasons={"key-missing": 1}, latency_ms=90_000))
    found = run.metrics()
    assert found[outcome("applied")] == 10
    assert (found[outcome("late")], found[outcome("superseded")], found[outcome("filtered")]) == (2, 2, 2)
    assert found['headrace_dead_letters_total{reason="key-missing",table="shop.orders"}'] == 3
    assert found['headrace_dead_letters_total{reason="too-large",table="shop.orders"}'] == 1
    assert found[f"headrace_table_write_seconds_total{TABLE}"] == 1.0
    assert found[f"headrace_table_latency_seconds_count{TABLE}"] == 2
    assert found[f"headrace_table_latency_seconds_sum{TABLE}"] == 91.5
    assert found['headrace_table_latency_seconds_bucket{le="2.5",sink="lake",table="shop.orders"}'] == 1
    assert began <= found[f"headrace_table_last_success_timestamp_seconds{TABLE}"] <= time.time()
    assert found['headrace_batches_total{result="committed"}'] == 2
    assert found["headrace_batch_seconds_sum"] == 1.5


def test_latency_by_stage_and_batches_by_step(run: ServedRun) -> None:
    run.commit(0, ONE, steps={"plan": 0.25, "write": 0.5})
    run.commit(1, ONE, steps={"write": 0.5})
    run.status = replace(RUNNING, tables=(replace(ORDERS, stages_ms={"transport": -5, "write": 400}),))
    found = run.metrics()
    assert found['headrace_batch_step_seconds_total{step="plan"}'] == 0.25
    assert found['headrace_batch_step_seconds_total{step="write"}'] == 1.0
    stages = {name: value for name, value in found.items() if "stage_seconds" in name}
    labels = 'sink="lake",stage="{}",table="shop.orders"'
    assert stages == {
        f"headrace_table_last_stage_seconds{{{labels.format('transport')}}}": -0.005,
        f"headrace_table_last_stage_seconds{{{labels.format('write')}}}": 0.4,
    }


def test_failed_and_repeated_tables_do_not_count(run: ServedRun) -> None:
    failed = TableProgress("shop.people", "lake", error="denied", dead_letters=1, reasons={"key-missing": 1})
    run.observers.emit_batch(0, None, "broker away")
    run.commit(0, ONE, failed)
    run.commit(0, replace(ONE, applied=0, skipped=True))
    found = run.metrics()
    assert found[outcome("applied")] == 6
    assert found[outcome("late")] == 1
    assert not [name for name in found if "shop.people" in name]
    assert found['headrace_batches_total{result="failed"}'] == 1
    assert found['headrace_dead_letters_total{reason="key-missing",table="shop.orders"}'] == 2


def test_unknown_numbers_are_absent(run: ServedRun) -> None:
    run.commit(0, TableProgress("shop.orders", "lake"))
    run.status = replace(RUNNING, tables=(TableStatus("shop.orders", "lake", error="denied", backlog=None),))
    found = run.metrics()
    of_table = {name.partition("{")[0] for name in found if "shop.orders" in name}
    assert {name for name in found if "outcome=" in name} == {outcome("filtered"), outcome("dropped")}
    assert of_table == {
        "headrace_table_rows_total",
        "headrace_table_set_aside",
        "headrace_table_write_seconds_total",
        "headrace_table_last_success_timestamp_seconds",
    }
    assert found[f"headrace_table_set_aside{TABLE}"] == 1


def test_status_of_tables(run: ServedRun) -> None:
    behind = replace(ORDERS, lag=7, lag_seconds=-3.0)
    run.status = replace(RUNNING, tables=(behind,), error="away", message="retrying: away")
    found = run.metrics()
    assert found[f"headrace_table_lag_records{TABLE}"] == 7
    assert found[f"headrace_table_lag_seconds{TABLE}"] == 0  # the clock went back
    assert found[f"headrace_table_last_latency_seconds{TABLE}"] == 1.5
    assert found[f"headrace_table_backlog_batches{TABLE}"] == 0
    assert found["headrace_source_failing"] == 1
    assert found["headrace_tables"] == 1
    run.status = replace(RUNNING, active=False)
    assert run.metrics()["headrace_run_active"] == 0


def test_other_events_are_counted(run: ServedRun) -> None:
    run.observers.emit(RunEventKind.RUN_RESTARTED, error="away")
    run.observers.emit(RunEventKind.SECRETS_RENEWED)
    run.observers.emit(RunEventKind.SCHEMA_CHANGED, topic="shop.orders")
    done = Maintained("shop.orders", "lake", "compact", "27 files", "1 file", 2.5)
    for maintained in (done, replace(done, error="denied", seconds=0.5)):
        run.observers.emit(RunEventKind.MAINTENANCE_DONE, table="shop.orders", maintained=maintained)
    found = run.metrics()
    assert (found["headrace_restarts_total"], found["headrace_secrets_renewed_total"]) == (1, 1)
    assert found["headrace_schema_changes_total"] == 1
    assert found['headrace_maintenance_steps_total{result="failed",step="compact"}'] == 1
    assert found['headrace_maintenance_seconds_total{step="compact"}'] == 3.0
    assert found["headrace_events_dropped_total"] == 0


def test_number_of_series_is_limited() -> None:
    with serve_run(**{"max.tables": 3}) as run:
        tables = [replace(ONE, table=f"shop.t{number}") for number in range(10)]
        run.commit(0, *tables)
        run.status = replace(RUNNING, tables=tuple(replace(ORDERS, table=table.table) for table in tables))
        found = run.metrics()
    applied = {name: value for name, value in found.items() if 'outcome="applied"' in name}
    assert sorted(applied.values()) == [6, 6, 6, 42]
    assert applied['headrace_table_rows_total{outcome="applied",sink="_other",table="_other"}'] == 42
    assert found['headrace_dead_letters_total{reason="too-large",table="_other"}'] == 7
    assert len([name for name in found if name.startswith("headrace_table_lag_records")]) == 3
    assert found["headrace_tables"] == 10


def test_names_follow_the_conventions(run: ServedRun) -> None:
    run.commit(0, ONE)
    text = run.get("/metrics").text
    types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    own = {name: kind for name, kind in types.items() if not name.startswith("process_")}
    assert own
    for name, kind in own.items():
        assert re.fullmatch(r"headrace_[a-z_]+", name)
        assert (kind == "counter") == name.endswith("_total"), name
        assert not re.search(r"_(ms|millis|minutes|milliseconds)", name)
        assert f"# HELP {name} " in text
    assert "process_start_time_seconds" in types


def test_labels_are_escaped(run: ServedRun) -> None:
    name = 'shop."or\\ders"\n'
    run.commit(0, replace(ONE, table=name))
    text = run.get("/metrics").text
    assert r'table="shop.\"or\\ders\"\n"' in text
    assert parse_metrics(text)


def test_thousand_scrapes_a_second_render_once(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    renders = list[int]()
    answers = run.serve._server.answers
    make = answers._metrics._make

    def render() -> bytes:
        renders.append(1)
        return make()

    monkeypatch.setattr(answers._metrics, "_make", render)
    monkeypatch.setattr("headrace_serve.cached.MAX_AGE", 60.0)
    for _ in range(100):
        assert request(run.serve.port, "/metrics").status == 200
    assert len(renders) == 1
    run.commit(0, ONE)
    assert run.observers.drain(10)
    assert outcome("applied") in read_metrics(run.serve.port)
    assert len(renders) == 2


def test_record_keeps_the_last_events(run: ServedRun) -> None:
    for number in range(KEPT + 5):
        run.commit(number, ONE)
    run.metrics()
    assert [event.batch for event in run.serve._record.batches] == list(range(5, KEPT + 5))


def test_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (-5, 0.5, 1.0, 1.5, 3.0):
        histogram.add(value)
    assert histogram.buckets == [("1.0", 3), ("2.0", 4), ("+Inf", 5)]
    assert histogram.sum == 6.0
