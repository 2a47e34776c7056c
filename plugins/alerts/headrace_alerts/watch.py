"""Evaluation of the conditions at intervals, and delivery to all receivers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.sdk import ObservedRun
from headrace.sdk.options import seconds_of
from headrace_alerts.alert import FIRING, Alert, Key
from headrace_alerts.alerts_config import AlertsConfig
from headrace_alerts.event_record import EventRecord
from headrace_alerts.findings import Conditions
from headrace_alerts.outbox import Outbox
from headrace_alerts.receivers.receiver import make_receiver
from headrace_alerts.state_file import StateFile
from headrace_alerts.troubles import Troubles

#: Seconds between two evaluations.
TICK_SECONDS = 5.0


class Watch:
    """Watch over one run: a thread evaluates the conditions, also while no events arrive."""

    def __init__(
        self,
        config: AlertsConfig,
        run: ObservedRun,
        record: EventRecord,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._now = run, now
        self._conditions = Conditions(config, record)
        self._troubles = Troubles(
            run.pipeline,
            patience=seconds_of(config.for_),
            keep_firing=seconds_of(config.keep_firing_for),
            repeat=None if config.repeat_interval is None else seconds_of(config.repeat_interval),
            wall_clock=time.time,
        )
        self._outboxes = [
            Outbox(make_receiver(receiver), run.warn, self._note_sent, sends_resolved=receiver.send_resolved)
            for receiver in config.to
        ]
        self._file = StateFile(config.state_file, run.pipeline) if config.state_file else None
        #: Last alert of each trouble, until all receivers have it, and open troubles that all receivers have.
        self._sent: dict[Key, Alert] = {}
        self._delivered: dict[Key, Alert] = {}
        self._lock, self._ended, self._has_failed = threading.Lock(), threading.Event(), False
        self._thread = threading.Thread(target=self._run_ticks, name="headrace-alerts", daemon=True)

    def start(self) -> None:
        """Read the open troubles and start the threads."""
        if self._file is not None:
            restored = self._file.read()
            self._delivered = {alert.key: alert for alert in restored}
            self._troubles.restore(restored, self._now())
        for outbox in self._outboxes:
            outbox.start()
        self._thread.start()

    def evaluate(self) -> None:
        """Evaluate the conditions, and put the alerts that are due into the outboxes."""
        now = self._now()
        alerts = self._troubles.update(self._conditions.find(self._run.status(), now), now)
        if alerts:
            with self._lock:
                self._sent |= {alert.key: alert for alert in alerts}
                for outbox in self._outboxes:
                    outbox.put(alerts)

    def end(self, deadline: float) -> None:
        """Evaluate a last time, and send what waits until ``deadline``, by ``time.monotonic``."""
        self._ended.set()
        self._thread.join(max(deadline - time.monotonic(), 0))
        for outbox in self._outboxes:
            outbox.end()
        for outbox in self._outboxes:
            outbox.join(deadline - time.monotonic())

    def _run_ticks(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self._try_to_evaluate()
        self._try_to_evaluate()

    def _try_to_evaluate(self) -> None:
        try:
            self.evaluate()
        except Exception as error:  # noqa: BLE001 - the next evaluation may succeed
            if not self._has_failed:
                self._has_failed = True
                self._run.warn(f"the conditions cannot be evaluated: {type(error).__name__}: {error}")

    def _note_sent(self) -> None:
        """Store the troubles whose state all receivers have accepted."""
        with self._lock:
            done = [key for key in self._sent if not any(outbox.has(key) for outbox in self._outboxes)]
            for key in done:
                alert = self._sent.pop(key)
                self._delivered.pop(key, None)
                if alert.status == FIRING:
                    self._delivered[key] = alert
            if done and self._file is not None:
                self._write(self._file)

    def _write(self, file: StateFile) -> None:
        try:
            file.write(self._delivered.values())
        except OSError as error:
            self._run.warn(f"`state` cannot be written: {error.strerror}")
