"""Runs with alerts: what receivers get from the begin of a run to its end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from headrace_alerts import outbox, watch
from headrace_alerts.alerts import Alerts
from tests.plugins.alerts.doubles import ORDERS, RUNNING, SET_ASIDE, TOKEN, AlertedRun, Hook, alert_about
from tests.support.waiting import until

from headrace.sdk import ConfigError
from headrace.sdk.observer import RunEventKind

STOPPED = "disk full\n  fix: free space"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "LONGEST_PAUSE_SECONDS", 0.05)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        yield server


def titles(hook: Hook, count: int) -> list[str]:
    """Wait for a number of messages to Alertmanager, and return status and summary of their alerts."""
    bodies = hook.await_bodies(count)
    return [f"{a['status']}: {a['annotations']['summary']}" for body in bodies for a in body["alerts"]]


def test_one_alert_per_trouble_and_one_when_it_ends(hook: Hook) -> None:
    with alert_about({"webhook": {"url": hook.url}}) as run:
        run.status = replace(RUNNING, tables=(SET_ASIDE,))
        assert titles(hook, 1) == ["firing: shop.orders → lake is set aside"]
        time.sleep(0.3)
        run.status = replace(RUNNING, tables=(ORDERS,))
        assert titles(hook, 2)[1:] == ["resolved: shop.orders → lake is set aside"]
        time.sleep(0.3)
    assert len(hook.received) == 2
    assert run.warnings == []


def test_every_receiver_gets_the_alert(hook: Hook, tmp_path: Path) -> None:
    file = tmp_path / "alerts"
    program = {"command": ["sh", "-c", f'echo "$HEADRACE_ALERT_STATUS $HEADRACE_ALERT_TABLE" >> {file}']}
    slack, quiet = {"slack": {"url": hook.url}}, {"slack": {"url": hook.url}, "send.resolved": False}
    with alert_about(slack, program, quiet) as run:
        run.status = replace(RUNNING, tables=(SET_ASIDE,))
        hook.await_bodies(2)
        run.status = RUNNING
        hook.await_bodies(3)
        until(lambda: file.read_text() == "firing shop.orders\nresolved shop.orders\n", "the program")
    assert len(hook.received) == 3


def test_events_that_have_no_state_are_alerted(hook: Hook) -> None:
    when = {"dead.letters": 2, "schema.changed": True}
    with alert_about({"webhook": {"url": hook.url}}, when=when, window="3 seconds") as run:
        run.observers.emit(RunEventKind.SCHEMA_CHANGED, topic="shop.public.orders")
        run.observers.emit(RunEventKind.DEAD_LETTERS_WRITTEN, table="shop.orders", counts={"key-missing": 2})
        until(lambda: len(titles(hook, 1)) == 4, "the ends")
        assert sorted(titles(hook, 1)) == [
            "firing: shop.orders has 2 dead letters within 3 seconds",
            "firing: the schema of shop.public.orders has changed",
            "resolved: shop.orders has 2 dead letters within 3 seconds",
            "resolved: the schema of shop.public.orders has changed",
        ]


def test_error_that_ends_the_run_is_sent_before_it_ends(hook: Hook) -> None:
    with alert_about({"webhook": {"url": hook.url}}) as run:
        run.observers.end(STOPPED)
        (body,) = [request.body for request in hook.received]
    assert body["alerts"][0]["annotations"] == {
        "summary": "the run has ended with an error",
        "description": "disk full\nfix: free space",
    }
    assert body["alerts"][0]["labels"] == {"alertname": "HeadraceStopped", "severity": "critical", "pipeline": "shop"}


def test_receiver_that_is_down_gets_the_newest_state(hook: Hook) -> None:
    hook.status = 503
    with alert_about({"webhook": {"url": hook.url}}) as run:
        run.status = replace(RUNNING, tables=(SET_ASIDE,))
        until(lambda: run.warnings, "the warning")
        run.status = replace(RUNNING, tables=(ORDERS,))
        time.sleep(0.3)
        hook.status = 200
        assert titles(hook, 1) == ["resolved: shop.orders → lake is set aside"]
        until(lambda: len(run.warnings) == 2, "the second warning")
    assert run.warnings == [
        "alerts: webhook 127.0.0.1 does not accept a message: it answers 503; it is overloaded or broken; it is tried again",
        "alerts: webhook 127.0.0.1 accepts messages again",
    ]


def test_receiver_that_hangs_delays_neither_events_nor_other_receivers_nor_the_end(hook: Hook) -> None:
    hook.held.set()
    with Hook() as other, alert_about({"slack": {"url": hook.url}}, {"slack": {"url": other.url}}) as run:
        run.status = replace(RUNNING, tables=(SET_ASIDE,))
        other.await_bodies(1)
        for batch in range(900):
            run.observers.emit(RunEventKind.BATCH_STARTED, batch=batch)
        assert run.observers.drain(10)
        began = time.monotonic()
        run.observers.end(None)
        assert time.monotonic() - began < 8
    assert not [text for text in run.warnings if "misses" in text or "close" in text]


def test_no_secret_is_shown(hook: Hook, capfd: pytest.CaptureFixture[str]) -> None:
    hook.status = 401
    to: list[dict[str, Any]] = [
        {"slack": {"url": hook.url}},
        {"pagerduty": {"routing.key": TOKEN, "url": hook.url}},
        {"webhook": {"url": "http://127.0.0.1:1/" + TOKEN, "headers": {"X-Key": TOKEN}}},
    ]
    with alert_about(*to, dead_man={"url": hook.url}) as run:
        run.status = replace(RUNNING, tables=(SET_ASIDE,))
        until(lambda: len(run.warnings) == 4, "four warnings")
    assert TOKEN not in "".join(run.warnings) + repr(run.alerts.config) + "".join(capfd.readouterr())
    assert not any(TOKEN in thread.name for thread in threading.enumerate())


def test_status_that_cannot_be_read_is_reported_once(hook: Hook) -> None:
    with alert_about({"slack": {"url": hook.url}}) as run:
        run.status = None  # type: ignore[assignment]  # what an engine must never return
        until(lambda: run.warnings, "the warning")
        time.sleep(0.2)
        run.status = replace(RUNNING, tables=(SET_ASIDE,))
        hook.await_bodies(1)
    (warning,) = run.warnings
    assert warning.startswith("alerts: the conditions cannot be evaluated: AttributeError")


class TestDeadMansSwitch:
    """Requests stay away as soon as the engine does not run."""

    def test_requests_while_the_run_is_active(self, hook: Hook) -> None:
        with alert_about(dead_man={"url": hook.url, "every": "1 second"}) as run:
            hook.await_bodies(2)
            run.status = replace(RUNNING, active=False)
            time.sleep(1.1)
            count = len(hook.received)
            time.sleep(1.2)
            assert len(hook.received) == count
        assert {(request.method, request.path) for request in hook.received} == {("GET", f"/services/{TOKEN}")}

    @pytest.mark.parametrize(("error", "count"), [(None, 2), (STOPPED, 1)])
    def test_regular_end_is_reported_and_an_error_is_not(self, hook: Hook, error: str | None, count: int) -> None:
        """A job with an end, such as a nightly one, reports that it has worked."""
        with alert_about(dead_man={"url": hook.url}) as run:
            hook.await_bodies(1)
            run.observers.end(error)
            assert len(hook.received) == count


class TestStateFile:
    """Runs that are started again."""

    @pytest.fixture
    def options(self, hook: Hook, tmp_path: Path) -> dict[str, Any]:
        return {"to": [{"webhook": {"url": hook.url}}], "state": str(tmp_path / "state/alerts.json")}

    def test_crash_loop_is_one_alert_which_ends_with_a_batch(self, hook: Hook, options: dict[str, Any]) -> None:
        for _ in range(3):
            with run_again(options) as run:
                run.observers.end(STOPPED)
        assert titles(hook, 1) == ["firing: the run has ended with an error"]
        with run_again(options) as run:
            run.observers.emit(RunEventKind.BATCH_COMMITTED, batch=1)
            assert titles(hook, 2)[1:] == ["resolved: the run has ended with an error"]
        with run_again(options) as run:
            run.observers.end(STOPPED)
        assert titles(hook, 3)[2:] == ["firing: the run has ended with an error"]

    def test_alert_that_a_receiver_misses_is_sent_by_the_next_run(self, hook: Hook, options: dict[str, Any]) -> None:
        expected = "firing: the run has ended with an error"
        with Hook() as other:
            other.status = 500
            options["to"].append({"webhook": {"url": other.url}})
            with run_again(options) as run:
                run.observers.end(STOPPED)
            other.status = 200
            with run_again(options) as run:
                run.observers.end(STOPPED)
            assert titles(other, 1) == [expected]
            assert titles(hook, 2) == [expected, expected]

    @pytest.mark.parametrize("content", ["", "{", "[1]", '[{"key": {"no": 1}}]', "null", "[[]]"])
    def test_damaged_file_is_replaced(self, hook: Hook, options: dict[str, Any], content: str) -> None:
        file = Path(options["state"])
        file.parent.mkdir()
        file.write_text(content)
        with run_again(options):
            assert json.loads(file.read_text()) == []

    def test_file_that_cannot_be_written_stops_the_start(self, tmp_path: Path, options: dict[str, Any]) -> None:
        (tmp_path / "state").write_text("")
        with pytest.raises(ConfigError, match=r"`state`, .*cannot be used: .*\n  fix: name a file in a folder"):
            AlertedRun(Alerts(options))


@contextmanager
def run_again(options: dict[str, Any]) -> Iterator[AlertedRun]:
    """Yield a run that is applying its first batch."""
    with alert_about(*options["to"], state=options["state"], status=replace(RUNNING, applying=0)) as run:
        yield run
