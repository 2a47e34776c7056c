"""Collectors that fail: no batch waits, nothing secret is shown, and the events arrive after the outage."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from headrace_openlineage import outbox
from headrace_openlineage.openlineage_observer import OpenLineage
from tests.plugins.openlineage.doubles import ORDERS, CollectorServer, ObservedRun
from tests.support.waiting import until

SECRET = "canary-4711"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "LONGEST_PAUSE_SECONDS", 0.1)


def test_events_arrive_with_the_key(collector: CollectorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("openlineage.yml").unlink()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.endpoint_url)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", SECRET)
    run = ObservedRun()
    run.commit(0, ORDERS)
    run.end()
    assert [event["eventType"] for event in collector.events if event["job"]["name"] == "shop"][-1] == "COMPLETE"
    path, headers = collector.requests[0]
    assert (path, headers["Authorization"]) == ("/api/v1/lineage", f"Bearer {SECRET}")
    assert run.warnings == []


@pytest.mark.parametrize(
    ("status", "content_type", "reason"),
    [
        (500, "text/plain", "it answers with errors of the server"),
        (401, "text/plain", "it answers 401"),
        (200, "text/html; charset=utf-8", "it answers with an HTML page"),
    ],
)
def test_outage_is_one_warning_and_ends_with_the_newest_events(
    collector: CollectorServer, status: int, content_type: str, reason: str
) -> None:
    collector.status, collector.content_type = status, content_type
    run = ObservedRun(OpenLineage({"running.interval": "1 ms"}))
    for batch in range(50):
        run.commit(batch, ORDERS)
    assert run.observers.drain(10)
    until(lambda: len(collector.requests) > 2, "several attempts", 60)
    assert run.warnings == [f"openlineage: the collector does not accept an event: {reason}; it is tried again"]
    assert len(run.observer._outbox._waiting) == 4  # START and the newest RUNNING of two runs
    collector.status, collector.content_type = 201, "application/json"
    run.end()
    assert run.warnings[1:] == ["openlineage: the collector accepts events again"]
    kinds = [event["eventType"] for event in collector.events if event["job"]["name"] == "shop.shop.orders"]
    assert (kinds[0], kinds[-1]) == ("START", "COMPLETE")
    assert collector.events[-1]["run"]["facets"]["headrace_batches"]["batches"] == 50


def test_rejected_event_is_dropped(collector: CollectorServer) -> None:
    collector.status = 400
    run = ObservedRun()
    until(lambda: run.warnings, "the rejection", 60)
    collector.status = 201
    run.end()
    assert run.warnings == ["openlineage: the collector rejects an event: it answers 400; it is dropped"]
    assert [event["eventType"] for event in collector.events] == ["COMPLETE"]


def test_collector_that_hangs_delays_no_batch_and_the_end_is_bounded(collector: CollectorServer) -> None:
    collector.is_hanging = True
    run = ObservedRun()
    began = time.monotonic()
    for batch in range(500):
        run.commit(batch, ORDERS)
    assert run.observers.drain(60)
    run.end()
    assert time.monotonic() - began < 60  # Batches that wait for requests take 40 minutes.
    assert [text for text in run.warnings if "were not sent to the collector" in text]
    assert not [text for text in run.warnings if "does not close" in text]


def test_address_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    run = ObservedRun()
    until(lambda: run.warnings, "the outage", 60)  # The client itself repeats the request.
    run.end()
    assert (
        run.warnings[0]
        == "openlineage: the collector does not accept an event: no answer: ConnectionError; it is tried again"
    )


def test_nothing_secret_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://user:{SECRET}@127.0.0.1:1/{SECRET}")
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", f"api?key={SECRET}")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", SECRET)
    caplog.set_level(logging.INFO)
    run = ObservedRun()
    run.commit(0, ORDERS)
    time.sleep(1.5)  # The client repeats the request.
    run.end("broken")
    out, err = capfd.readouterr()
    assert SECRET not in out + err + caplog.text + str(run.warnings)


def test_queue_is_bounded(collector: CollectorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_WAITING", 5)
    collector.status = 503
    run = ObservedRun()
    for number in range(20):
        run.commit(number, *[type(ORDERS)(f"shop.t{number}", "lake", rows_in=1, applied=1)])
    assert run.observers.drain(10)
    assert len(run.observer._outbox._waiting) == 5
    assert "openlineage: events are dropped, because 5 wait for the collector" in run.warnings
    collector.status = 201
    run.end()


def test_console_shows_events(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("openlineage.client.transport.console")
    log.propagate = False  # pytest has a handler
    try:
        run = ObservedRun()
        run.end()
    finally:
        log.propagate = True
        for handler in list(log.handlers):
            log.removeHandler(handler)
    assert '"eventType": "START"' in capfd.readouterr().err
