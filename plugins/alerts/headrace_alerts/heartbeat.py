"""Requests to a dead man's switch."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.sdk import HeadraceError
from headrace.sdk.observer import Status
from headrace.sdk.options import seconds_of
from headrace_alerts.alerts_config import DeadManConfig
from headrace_alerts.http_request import find_host, request
from headrace_alerts.outage import Outage

#: Seconds of one request.
_TIMEOUT = 10.0


class Heartbeat:
    """Thread that sends a request at each interval while the run is active."""

    def __init__(self, config: DeadManConfig, status: Callable[[], Status], warn: Callable[[str], None]) -> None:
        self._config, self._status = config, status
        self._outage = Outage(f"dead.man {find_host(config.url)}", warn)
        self._ended, self._is_regular = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="headrace-alerts-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, *, is_regular: bool) -> None:
        """End the thread; after a regular end of the run with a last request."""
        self._is_regular = is_regular
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, for a limited time."""
        self._thread.join(max(seconds, 0))

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._is_alive():
                self._send()
            self._ended.wait(seconds_of(self._config.every))
        if self._is_regular:
            self._send()

    def _is_alive(self) -> bool:
        try:
            return self._status().active
        except Exception:  # noqa: BLE001 - an engine without a status does not run
            return False

    def _send(self) -> None:
        try:
            request(self._config.url, _TIMEOUT)
        except HeadraceError as error:
            self._outage.note_failure(f"{error.what}; {error.fix}")
        else:
            self._outage.note_success()
