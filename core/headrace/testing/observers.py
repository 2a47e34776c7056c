"""Requirements of an observer, as tests without Spark.

::

    class TestAcmeEvents(ObserverConformance):
        plugin_class = AcmeEvents

        def config(self, folder):
            return {"path": str(folder / "events.jsonl")}

        def read_applied(self, observer):
            return sum(...)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.engine.run.observers import Observers
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.status import Status, describe_run
from headrace.sdk.observer import Observer, RunEvent, RunEventKind
from headrace.testing._internal.claims import applies_if
from headrace.testing.plugins import PluginConformance

#: Seconds in which an observer receives 1,000 events, or closes.
_PATIENCE = 10.0
_COMMITTED = RunEventKind.BATCH_COMMITTED


def _reports_rows(kit: Any) -> bool:
    return kit.read_applied is not ObserverConformance.read_applied


class ObserverConformance(PluginConformance):
    """Tests of an observer. Subclass this class; pytest then collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Observer]]

    def read_applied(self, observer: Any) -> int | None:
        """Return the number of applied rows that an open observer has reported; None without a report."""
        return None

    @pytest.fixture
    def run(self, tmp_path: Path) -> Any:
        """Return an observed run without Spark, which ends with the test."""
        run = ObservedEvents(self.plugin_class(self.config(tmp_path)))
        yield run
        run.end()

    def test_every_event_is_accepted(self, run: ObservedEvents) -> None:
        run.open()
        for event in list_events():
            run.send(event)
        run.end()
        assert run.warnings == [], "the observer raises an error"

    def test_run_without_events_can_end(self, run: ObservedEvents) -> None:
        run.open()
        run.end()
        assert run.warnings == []

    def test_observer_releases_everything_at_the_end(self, tmp_path: Path) -> None:
        """A second run with the same options can start, and no thread is left."""
        before, options = set(threading.enumerate()), self.config(tmp_path)
        for _ in range(2):
            run = ObservedEvents(self.plugin_class(dict(options)))
            run.open()
            run.end()
            assert run.warnings == []
        end = time.monotonic() + _PATIENCE
        while (left := set(threading.enumerate()) - before) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left, "threads of the observer run after `close`"

    def test_many_events_are_received_in_time(self, run: ObservedEvents) -> None:
        run.open()
        for number in range(1000):
            run.send(RunEvent(kind=_COMMITTED, time=time.time(), batch=number, progress=make_progress(number)))
        run.end()
        assert run.warnings == [], "the observer is too slow for 1,000 events"

    def test_clock_may_jump(self, run: ObservedEvents) -> None:
        run.open()
        for seconds in (0.0, 4e9, 1.0):
            run.send(RunEvent(kind=_COMMITTED, time=seconds, batch=0, progress=make_progress(0)))
        run.end()
        assert run.warnings == []

    @applies_if(_reports_rows)
    def test_rows_count_after_their_commit(self, run: ObservedEvents) -> None:
        run.open()
        run.send(RunEvent(kind=RunEventKind.BATCH_STARTED, time=1.0, batch=0))
        run.send(RunEvent(kind=RunEventKind.BATCH_FAILED, time=2.0, batch=0, error="no such bucket"))
        assert not run.read(self.read_applied), "rows of a batch count before it is committed"
        run.send(RunEvent(kind=_COMMITTED, time=3.0, batch=0, progress=make_progress(0)))
        assert run.read(self.read_applied) == 8
        repeated = make_progress(0, skipped=True)
        run.send(RunEvent(kind=_COMMITTED, time=4.0, batch=0, progress=repeated))
        assert run.read(self.read_applied) == 8, "rows count again that an earlier attempt has written"


class ObservedEvents:
    """Events for one observer, through the thread and the queue of a run."""

    def __init__(self, observer: Observer) -> None:
        self.warnings: list[str] = []
        self._observer, self._observers = observer, Observers([observer], str, self.warnings.append)
        self._is_open = False

    def open(self) -> None:
        """Open the observer."""
        self._observers.open("orders", make_status)
        self._is_open = True

    def send(self, event: RunEvent) -> None:
        """Send an event; a run does not wait for the observer."""
        self._observers.send(event)

    def read(self, read: Callable[[Any], int | None]) -> int | None:
        """Return a result of the observer after it has received all events."""
        assert self._observers.drain(_PATIENCE), "the observer does not receive its events in time"
        return read(self._observer)

    def end(self) -> None:
        """End the run."""
        if self._is_open:
            self._is_open = False
            self._observers.drain(_PATIENCE)
            self._observers.end(None)


def make_progress(batch: int, *, skipped: bool = False) -> BatchProgress:
    """Return the progress of a batch: a table with 8 applied rows, one that failed, and one whose counts are unknown."""
    tables = (
        TableProgress(
            "shop.orders",
            "lake",
            rows_in=10,
            applied=0 if skipped else 8,
            late=1,
            superseded=0,
            dead_letters=1,
            reasons={"key-missing": 1},
            latency_ms=1500,
            latency_max_ms=2500,
            lag=3,
            seconds=0.5,
            skipped=skipped,
        ),
        TableProgress("shop.people", "lake", error="table shop.people: permission denied", seconds=0.1),
        TableProgress("shop.views", "lake"),
    )
    return BatchProgress("orders", batch, "2026-11-21T11:19:40.527+00:00", 0.75, tables)


def make_status() -> Status:
    """Return the status of a run whose last batch is ``make_progress(0)``."""
    return describe_run([make_progress(0)], {}, None, None, has_answered=True)


def list_events() -> Sequence[RunEvent]:
    """Return an event of each kind, in the order of a run, with and without their optional fields."""
    kind, maintained = RunEventKind, Maintained("shop.orders", "lake", "compact", "27 files")
    fields: list[tuple[RunEventKind, dict[str, Any]]] = [
        (kind.RUN_STARTED, {}),
        (kind.BATCH_STARTED, {"batch": 0}),
        (kind.BATCH_FAILED, {"batch": 0, "error": "broker: connection refused\n  fix: start it"}),
        (kind.RUN_RESTARTED, {"error": "broker: connection refused"}),
        (kind.TABLE_SET_ASIDE, {"table": "shop.people", "batch": 0, "error": "permission denied"}),
        (kind.BATCH_COMMITTED, {"batch": 0, "progress": make_progress(0)}),
        (kind.DEAD_LETTERS_WRITTEN, {"table": "shop.orders", "batch": 0, "counts": {"key-missing": 1}}),
        (kind.SCHEMA_CHANGED, {"topic": "shop.orders"}),
        (kind.TABLE_CAUGHT_UP, {"table": "shop.people"}),
        (kind.MAINTENANCE_DONE, {"table": "shop.orders", "maintained": maintained}),
        (kind.SECRETS_RENEWED, {}),
        (kind.BATCH_FAILED, {"batch": 1, "error": "disk full", "progress": make_progress(1)}),
    ]
    return [RunEvent(kind=kind, time=time.time(), **values) for kind, values in fields]
