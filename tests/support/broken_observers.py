"""Observers that each break one requirement, and the kit test that must detect it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.kit_run import Broken, fails

from headrace.scaffold.templates.observer import Example
from headrace.sdk.observer import ObservedRun, RunEvent, RunEventKind
from headrace.testing.observers import ObserverConformance

BROKEN: Broken = {}


class EventLog(Example):
    """Correct observer of the template; the others derive from it."""


class EventLogKit(ObserverConformance):
    plugin_class = EventLog

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder / "events.jsonl")}

    def read_applied(self, observer: EventLog) -> int:
        events = [json.loads(line) for line in Path(observer.config.path).read_text().splitlines()]
        return sum(applied or 0 for event in events for applied in event.get("applied", {}).values())


@fails(BROKEN, "test_every_event_is_accepted")
class NeedsProgress(EventLog):
    def observe(self, event: RunEvent) -> None:
        assert event.progress or event.kind in (RunEventKind.RUN_STARTED, RunEventKind.RUN_STOPPED)
        super().observe(event)


@fails(BROKEN, "test_run_without_events_can_end", "test_observer_releases_everything_at_the_end")
class NeedsEvents(EventLog):
    def open(self, run: ObservedRun) -> None:
        super().open(run)
        self._count = 0

    def observe(self, event: RunEvent) -> None:
        self._count += 1
        super().observe(event)

    def close(self) -> None:
        super().close()
        assert self._count > 1


@fails(BROKEN, "test_observer_releases_everything_at_the_end")
class LeavesThread(EventLog):
    def open(self, run: ObservedRun) -> None:
        super().open(run)
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()


@fails(BROKEN, "test_many_events_are_received_in_time")
class IsSlow(EventLog):
    def observe(self, event: RunEvent) -> None:
        time.sleep(0.05)
        super().observe(event)


@fails(BROKEN, "test_clock_may_jump")
class NeedsClock(EventLog):
    def open(self, run: ObservedRun) -> None:
        super().open(run)
        self._last = 0.0

    def observe(self, event: RunEvent) -> None:
        assert event.time >= self._last
        self._last = event.time
        super().observe(event)


@fails(BROKEN, "test_rows_count_after_their_commit")
class CountsRepeatedRows(EventLog):
    def observe(self, event: RunEvent) -> None:
        super().observe(event)
        for table in event.progress.tables if event.progress else ():
            if table.skipped:
                self._file.write(json.dumps({"applied": {table.table: 8}}) + "\n")
                self._file.flush()
