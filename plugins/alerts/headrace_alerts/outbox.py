"""Alerts that wait for one receiver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from headrace_alerts.alert import RESOLVED, Alert, Key
from headrace_alerts.outage import Outage
from headrace_alerts.receivers.receiver import Receiver

#: Seconds before a receiver is tried again: the first pause, which doubles, and the longest.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0
#: Troubles with an alert that waits for a receiver. The oldest is dropped.
MAX_WAITING = 1000


class Outbox:
    """Alerts for one receiver, and the thread that sends them. Of each trouble the newest state waits."""

    def __init__(
        self,
        receiver: Receiver,
        warn: Callable[[str], None],
        on_sent: Callable[[], None],
        *,
        sends_resolved: bool = True,
    ) -> None:
        """``on_sent`` is called after each accepted message."""
        self._receiver, self._on_sent, self._sends_resolved = receiver, on_sent, sends_resolved
        self._outage, self._warn = Outage(receiver.place, warn), warn
        self._waiting: dict[Key, Alert] = {}
        self._changed, self._is_ending, self._has_dropped = threading.Condition(), False, False
        self._thread = threading.Thread(target=self._run, name=f"headrace-alerts-{receiver.place}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, alerts: Iterable[Alert]) -> None:
        """Add alerts, which replace earlier ones of their troubles."""
        with self._changed:
            for alert in alerts:
                self._waiting.pop(alert.key, None)
                if self._sends_resolved or alert.status != RESOLVED:
                    self._waiting[alert.key] = alert
            is_full = len(self._waiting) > MAX_WAITING
            while len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
            self._changed.notify()
        if is_full and not self._has_dropped:
            self._has_dropped = True
            self._warn(f"{self._receiver.place}: alerts are dropped, because {MAX_WAITING:,} wait for it")

    def has(self, key: Key) -> bool:
        """Return whether an alert of a trouble waits."""
        with self._changed:
            return key in self._waiting

    def end(self) -> None:
        """Try once more to send the waiting alerts; the thread then ends."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, for a limited time."""
        self._thread.join(max(seconds, 0))

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while alerts := self._next():
            was_ending = self._is_ending
            if self._send(alerts):
                pause = FIRST_PAUSE_SECONDS
            elif was_ending:
                return
            else:
                self._wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _next(self) -> list[Alert]:
        """Wait for alerts, and return those of the next message; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending)
            return list(self._waiting.values())[: self._receiver.max_alerts]

    def _send(self, alerts: list[Alert]) -> bool:
        """Return whether the receiver accepted the alerts."""
        try:
            self._receiver.send(alerts)
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            # The receiver may reject one alert: the others are tried before it.
            with self._changed:
                for alert in alerts:
                    if self._waiting.get(alert.key) is alert:
                        self._waiting[alert.key] = self._waiting.pop(alert.key)
            self._outage.note_failure(self._receiver.describe_error(error))
            return False
        with self._changed:
            for alert in alerts:
                if self._waiting.get(alert.key) is alert:
                    del self._waiting[alert.key]
        self._outage.note_success()
        self._on_sent()
        return True

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            while not self._is_ending and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
