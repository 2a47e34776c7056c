"""Events that wait for the collector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from openlineage.client.event_v2 import RunEvent, RunState

from headrace_openlineage.collector import Collector, RejectedError, explain

#: Seconds before the collector is tried again: the first pause, which doubles, and the longest.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0
#: Events that wait. The oldest is dropped.
MAX_WAITING = 1000


class Outbox:
    """Events for the collector, and the thread that sends them in order. Counts are sums, so only the newest RUNNING of a run waits."""

    def __init__(self, collector: Collector, warn: Callable[[str], None]) -> None:
        self._collector, self._warn = collector, warn
        #: Id of a run and state → event.
        self._waiting: dict[tuple[str, RunState | None], RunEvent] = {}
        self._changed, self._deadline = threading.Condition(), float("inf")
        self._is_down = self._has_dropped = self._has_rejected = False
        self._thread = threading.Thread(target=self._send_all, name="headrace-openlineage", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, event: RunEvent) -> None:
        """Add an event."""
        key = event.run.runId, event.eventType
        with self._changed:
            self._waiting.pop((event.run.runId, RunState.RUNNING), None)
            self._waiting[key] = event
            is_full = len(self._waiting) > MAX_WAITING
            if is_full:
                del self._waiting[next(iter(self._waiting))]
            self._changed.notify()
        if is_full and not self._has_dropped:
            self._has_dropped = True
            self._warn(f"events are dropped, because {MAX_WAITING:,} wait for the collector")

    def end(self, deadline: float) -> None:
        """Send what waits until ``deadline``, by ``time.monotonic``, and end the thread. Return at that time at the latest."""
        with self._changed:
            self._deadline = deadline
            self._changed.notify()
        self._thread.join(max(deadline - time.monotonic(), 0))
        if left := len(self._waiting):
            self._warn(f"{left:,} events were not sent to the collector")

    @property
    def _is_ending(self) -> bool:
        return self._deadline < float("inf")

    def _send_all(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while (event := self._next()) is not None:
            if self._send(event):
                pause = FIRST_PAUSE_SECONDS
            else:
                self._wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        self._collector.close(self._deadline - time.monotonic())

    def _next(self) -> RunEvent | None:
        """Wait for an event; None at the end, when none is left or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending)
            is_over = time.monotonic() >= self._deadline
            return None if is_over or not self._waiting else next(iter(self._waiting.values()))

    def _send(self, event: RunEvent) -> bool:
        """Return whether the event is done: the collector has accepted or rejected it."""
        try:
            self._collector.send(event)
        except RejectedError as error:
            if not self._has_rejected:
                self._has_rejected = True
                self._warn(f"the collector rejects an event: {error}; it is dropped")
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            if not self._is_down:
                self._is_down = True
                self._warn(f"the collector does not accept an event: {explain(error)}; it is tried again")
            return False
        with self._changed:
            key = event.run.runId, event.eventType
            if self._waiting.get(key) is event:
                del self._waiting[key]
        if self._is_down:
            self._is_down = False
            self._warn("the collector accepts events again")
        return True

    def _wait(self, seconds: float) -> None:
        """Wait before the next attempt; at the end of the run, for a second at most."""
        end = time.monotonic() + seconds
        with self._changed:
            while (left := end - time.monotonic()) > 0 and not self._is_ending:
                self._changed.wait(left)
            if self._is_ending:
                self._changed.wait(min(FIRST_PAUSE_SECONDS, max(self._deadline - time.monotonic(), 0)))
