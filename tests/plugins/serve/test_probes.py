"""Probes: each fails when the thing that it watches is broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.plugins.serve.client import ORDERS, RUNNING, ServedRun, serve_run

from headrace.progress.status import Status


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with serve_run() as run:
        yield run


def probe(run: ServedRun, path: str, status: Status | None = None) -> tuple[int, str]:
    run.status = status or run.status
    answer = run.get(path)
    return answer.status, answer.text.strip()


def test_run_is_alive_until_it_has_ended(run: ServedRun) -> None:
    assert probe(run, "/healthz") == (200, "ok")
    retrying = replace(RUNNING, error="away", message="retrying: away")
    assert probe(run, "/healthz", retrying) == (200, "ok")  # A restart would not help.
    ended = replace(RUNNING, active=False, message="stopped: the disk is full")
    assert probe(run, "/healthz", ended) == (503, "the run has ended: stopped: the disk is full")
    assert probe(run, "/readyz", ended)[0] == 503


def test_engine_without_a_status_is_dead(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Status:
        raise ConnectionError("hush")

    monkeypatch.setattr(run.serve._server.answers._status, "_make", fail)
    for path in ("/healthz", "/readyz"):
        assert probe(run, path) == (503, "the status cannot be read: ConnectionError")
    assert probe(run, "/status.json")[0] == probe(run, "/metrics")[0] == 500


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"lag": 900, "lag_seconds": 61.0}, "shop.orders → lake: 61 s behind"),
        ({"error": "denied", "lag_seconds": None}, "shop.orders → lake: set aside"),
    ],
)
def test_table_that_is_late_or_set_aside_is_not_ready(run: ServedRun, change: dict[str, Any], reason: str) -> None:
    assert probe(run, "/readyz") == (200, "ok")
    status = replace(RUNNING, tables=(ORDERS, replace(ORDERS, **change)))
    assert probe(run, "/readyz", status) == (503, reason)
    assert probe(run, "/healthz") == (200, "ok")
    assert probe(run, "/readyz", replace(RUNNING, tables=(ORDERS,))) == (200, "ok")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"error": "broker away", "message": "retrying: broker away"}, "retrying: broker away"),
        ({"silent_seconds": 75.0}, "the source has not answered for 75 s"),
        ({"has_answered": False, "tables": ()}, "the source has not answered yet"),
        ({"applying": 0, "tables": ()}, "the first batch is not committed yet"),
    ],
)
def test_source_that_does_not_answer_is_not_ready(run: ServedRun, change: dict[str, Any], reason: str) -> None:
    assert probe(run, "/readyz", replace(run.status, **change)) == (503, reason)


def test_idle_run_without_new_records_is_ready(run: ServedRun) -> None:
    assert probe(run, "/readyz", RUNNING) == (200, "ok")


def test_source_without_lag_is_judged_by_its_last_batch_while_more_follow(run: ServedRun) -> None:
    table = replace(ORDERS, lag=None, lag_seconds=None, latency_ms=3_600_000)
    assert probe(run, "/readyz", replace(RUNNING, tables=(table,), applying=7))[0] == 503
    assert probe(run, "/readyz", replace(RUNNING, tables=(table,))) == (200, "ok")


def test_limit_can_be_changed() -> None:
    with serve_run(ready={"latency": "2 minutes"}) as run:
        late = replace(ORDERS, lag=9, lag_seconds=119.0)
        assert probe(run, "/readyz", replace(RUNNING, tables=(late,)))[0] == 200
        assert probe(run, "/readyz", replace(RUNNING, tables=(replace(late, lag_seconds=121.0),)))[0] == 503


def test_first_catch_up_can_count_as_ready() -> None:
    late = replace(RUNNING, tables=(replace(ORDERS, lag=9, lag_seconds=7200.0),))
    with serve_run(ready={"during.catch.up": True}) as run:
        assert probe(run, "/readyz", late)[0] == 200
        failed = replace(RUNNING, tables=(replace(ORDERS, error="denied"),))
        assert probe(run, "/readyz", failed)[0] == 503
        assert probe(run, "/readyz", replace(RUNNING, tables=(ORDERS,)))[0] == 200
        assert probe(run, "/readyz", late)[0] == 503  # It is no longer the first one.


def test_status_as_json(run: ServedRun) -> None:
    error = "table shop.orders: [CAST_INVALID_INPUT] The value 'Arp' of \"name\" cannot be cast\n  fix: widen it"
    late = replace(ORDERS, table="shop.people", error=error, backlog=3)
    run.status = replace(RUNNING, tables=(ORDERS, late))
    answer = run.get("/status.json")
    data = json.loads(answer.text)
    assert answer.headers["Content-Type"] == "application/json"
    assert (data["pipeline"], data["active"], data["not_ready"]) == ("shop", True, ["shop.people → lake: set aside"])
    assert data["tables"][0]["lag"] == 0
    shown = data["tables"][1]["error"]
    assert "Arp" not in answer.text
    assert shown == "table shop.orders: [CAST_INVALID_INPUT] The value '…' of '…' cannot be cast\n  fix: widen it"
