"""Observers of a run: order of events, full queues, errors, and the end of the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.support.waiting import until

from headrace.engine.run import observers as engine
from headrace.engine.run.observers import QUEUED_EVENTS, Observers
from headrace.errors import ConfigError, HeadraceError, PluginError
from headrace.sdk.observer import ObservedRun, Observer, RunEvent, RunEventKind
from headrace.testing.observers import make_progress, make_status

KIND = RunEventKind


class Listener(Observer):
    """Observer that records events; ``on_event`` is called with each."""

    name = "listener"
    api_version = 1

    def __init__(self, on_event: Callable[[RunEvent], None] = lambda event: None) -> None:
        super().__init__()
        self.events: list[RunEvent] = []
        self.run: ObservedRun | None = None
        self.on_event, self.is_closed = on_event, False

    def open(self, run: ObservedRun) -> None:
        self.run = run

    def observe(self, event: RunEvent) -> None:
        self.events.append(event)
        self.on_event(event)

    def close(self) -> None:
        self.is_closed = True

    @property
    def kinds(self) -> list[RunEventKind]:
        return [event.kind for event in self.events]


class Run:
    """Run with observers, without Spark."""

    def __init__(self, *observers: Observer, redact: Callable[[str], str] = str) -> None:
        self.warnings: list[str] = []
        self.observers = Observers(observers, redact, self.warnings.append)
        self.observers.open("orders", make_status)


def test_events_arrive_in_order_and_the_observer_is_closed() -> None:
    listener = Listener()
    run = Run(listener)
    run.observers.emit(KIND.RUN_STARTED)
    run.observers.emit(KIND.BATCH_STARTED, batch=7)
    run.observers.emit_batch(7, make_progress(7))
    run.observers.end(None)
    run.observers.emit(KIND.BATCH_STARTED, batch=8)
    run.observers.end(None)
    assert listener.kinds == [
        KIND.RUN_STARTED,
        KIND.BATCH_STARTED,
        KIND.BATCH_COMMITTED,
        KIND.DEAD_LETTERS_WRITTEN,
        KIND.RUN_STOPPED,
    ]
    assert listener.events[2].progress == make_progress(7)
    assert (listener.events[3].table, dict(listener.events[3].counts)) == ("shop.orders", {"key-missing": 1})
    assert listener.is_closed
    assert run.warnings == []
    assert listener.run is not None
    assert (listener.run.pipeline, listener.run.count_dropped()) == ("orders", 0)
    assert listener.run.status() == make_status()


def test_dead_letters_of_a_repeated_batch_are_not_reported_again() -> None:
    listener = Listener()
    run = Run(listener)
    run.observers.emit_batch(7, make_progress(7, skipped=True), "disk full")
    run.observers.end("disk full")
    assert listener.kinds == [KIND.BATCH_FAILED, KIND.RUN_STOPPED]
    assert [event.error for event in listener.events] == ["disk full", "disk full"]


def test_errors_contain_no_secret() -> None:
    listener = Listener(lambda event: (_ for _ in ()).throw(ValueError("hush")))
    run = Run(listener, redact=lambda text: text.replace("hush", "***"))
    run.observers.end(ConfigError("hush is wrong", where="source x", fix="none"))
    assert listener.events[0].error == "source x: *** is wrong\n  fix: none"
    assert run.warnings == ["listener: raises ValueError: ***; the run continues"]


def test_blocked_observer_misses_events_and_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CLOSE_SECONDS", 0.2)
    released = threading.Event()

    def wait(event: RunEvent) -> None:
        released.wait(60)

    blocked, other = Listener(wait), Listener()
    run = Run(blocked, other)
    began = time.monotonic()
    run.observers.emit(KIND.RUN_STARTED)
    until(lambda: blocked.events, "the event that blocks")
    for number in range(QUEUED_EVENTS + 5):
        run.observers.emit(KIND.BATCH_STARTED, batch=number)
        if number % 100 == 0:  # The queue of the other observer never fills up.
            until(partial(lambda seen: len(other.events) > seen, number), "the other observer")
    until(lambda: len(other.events) == QUEUED_EVENTS + 6, "the other observer")
    run.observers.end(None)
    assert time.monotonic() - began < 10
    assert blocked.run is not None
    assert blocked.run.count_dropped() == 6  # with the end of the run
    assert len(other.events) == QUEUED_EVENTS + 7
    assert [warning.split(";")[0] for warning in run.warnings] == [
        "listener: misses events, because 1,000 wait for it",
        "listener: does not close",
    ]
    released.set()
    until(lambda: blocked.is_closed, "the end of the observer")
    assert len(blocked.events) == QUEUED_EVENTS + 1


@pytest.mark.parametrize("error", [ValueError("no disk"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_observer_that_raises_is_reported_once(error: BaseException) -> None:
    def fail(event: RunEvent) -> None:
        raise error

    listener, other = Listener(fail), Listener()
    run = Run(listener, other)
    for _ in range(3):
        run.observers.emit(KIND.BATCH_STARTED, batch=0)
    run.observers.end(None)
    assert len(listener.events) == len(other.events) == 4
    assert listener.is_closed
    assert len(run.warnings) == 1
    assert run.warnings[0].startswith(f"listener: raises {type(error).__name__}")


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (ConfigError("port 80 is in use", fix="use another"), ConfigError, "port 80 is in use\n  fix: use another"),
        (OSError("no port"), PluginError, "the observer 'closed' cannot be opened: OSError: no port"),
    ],
)
def test_error_of_open_stops_the_start(error: Exception, expected: type[HeadraceError], text: str) -> None:
    class Closed(Listener):
        name = "closed"

        def open(self, run: ObservedRun) -> None:
            raise error

    first, warnings = Listener(), list[str]()
    observers = Observers([first, Closed()], str, warnings.append)
    with pytest.raises(expected) as caught:
        observers.open("orders", make_status)
    assert text in str(caught.value)
    observers.end(caught.value)
    assert first.is_closed
    assert warnings == []


def test_events_of_tables_schemas_and_secrets_are_sent() -> None:
    class Changing:
        on_set_aside: Any = None
        on_caught_up: Any = None
        on_change: Any = None
        on_renewed: Any = None

    listener, backlogs, schemas, current = Listener(), Changing(), Changing(), Changing()
    run = Run(listener)
    run.observers.watch(backlogs, schemas, current)  # type: ignore[arg-type]  # it uses the attributes alone
    backlogs.on_set_aside("shop.orders", 3, "disk full")
    backlogs.on_caught_up("shop.orders")
    schemas.on_change("shop.orders")
    current.on_renewed()
    run.observers.end(None)
    found = [(event.kind, event.table or event.topic, event.batch, event.error) for event in listener.events]
    assert found == [
        (KIND.TABLE_SET_ASIDE, "shop.orders", 3, "disk full"),
        (KIND.TABLE_CAUGHT_UP, "shop.orders", None, None),
        (KIND.SCHEMA_CHANGED, "shop.orders", None, None),
        (KIND.SECRETS_RENEWED, None, None, None),
        (KIND.RUN_STOPPED, None, None, None),
    ]


def test_observer_adds_warnings_to_those_of_the_run() -> None:
    class Warner(Listener):
        name = "alerts"

        def open(self, run: ObservedRun) -> None:
            run.warn("hush: nobody listens")

    warnings = list[str]()
    observers = Observers([Warner()], lambda text: text.replace("hush", "******"), warnings.append)
    observers.open("orders", make_status)
    observers.end(None)
    assert warnings == ["alerts: ******: nobody listens"]
