"""Client of the collector that receives the events, as OpenLineage's configuration names it."""

from __future__ import annotations

import logging
import threading
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from openlineage.client.transport import Transport

from headrace.sdk import ConfigError

_CONSOLE = "console"
#: Statuses with which a collector rejects one event: it would reject it again.
_REJECTIONS = (400, 413, 422)


class RejectedError(Exception):
    """Answer of a collector that does not accept an event."""


class Collector:
    """Collector of events. Its messages contain neither its address nor a login."""

    def __init__(self) -> None:
        """Read the configuration. ConfigError if it is not valid."""
        _HIDDEN.install()
        try:
            with _HIDDEN:
                self._client = OpenLineageClient()
        except Exception as error:  # noqa: BLE001 - its text may contain a login
            what = f"the configuration of OpenLineage's client is not valid: {type(error).__name__}"
            fix = "check OPENLINEAGE_URL, the other variables OPENLINEAGE_*, and openlineage.yml"
            raise ConfigError(what, where="openlineage", fix=fix) from None
        self.kind = self._client.transport.kind
        self._client.transport = _CheckedTransport(self._client.transport)
        if self.kind == _CONSOLE:
            _show_console_events()

    @property
    def is_console(self) -> bool:
        """Whether the events are only printed."""
        return self.kind == _CONSOLE

    def send(self, event: RunEvent) -> None:
        """Send an event. RejectedError if the collector rejects this event; any other error may be temporary."""
        with _HIDDEN:
            try:
                self._client.emit(event)
            except Exception as error:
                if _find_status(error) in _REJECTIONS:
                    raise RejectedError(explain(error)) from None
                raise

    def close(self, seconds: float) -> None:
        """Wait for events that a transport sends in the background, for a limited time."""
        self._client.close(max(seconds, 0.0))


class _CheckedTransport(Transport):
    """Transport that does not take the page of a proxy or of a login for an acceptance."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.kind = transport.kind

    def emit(self, event: Any) -> Any:
        answer = self._transport.emit(event)
        if "html" in str(getattr(answer, "headers", {}).get("Content-Type", "")).lower():
            raise ValueError("an HTML page")
        return answer

    def close(self, timeout: float = -1.0) -> bool:
        return bool(self._transport.close(timeout))


def explain(error: Exception) -> str:
    """Return why an event was not accepted, without the text of the error: it may contain the address with a login."""
    if status := _find_status(error):
        return f"it answers {status}"
    if type(error).__name__ == "RetryError":  # of requests: the client has repeated the request
        return "it answers with errors of the server"
    if isinstance(error, RejectedError):
        return str(error)
    if isinstance(error, ValueError) and str(error) == "an HTML page":
        return "it answers with an HTML page"
    return f"no answer: {type(error).__name__}" if isinstance(error, OSError) else type(error).__name__


def _find_status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _show_console_events() -> None:
    """Print the events of the transport `console` to stderr, unless the process has configured its logs."""
    log = logging.getLogger("openlineage.client.transport.console")
    if not log.hasHandlers():
        log.addHandler(logging.StreamHandler())
        log.setLevel(logging.INFO)


class _HiddenMessages(logging.Filter):
    """Filter for messages of libraries while this thread sends an event: they contain the address, and one warning is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()

    def install(self) -> None:
        """Filter the messages of OpenLineage's client, except events of the transport `console`, and of the HTTP client."""
        parts = ("client", "transport.http", "transport.composite", "transport.transform")
        for name in ("urllib3.connectionpool", *(f"openlineage.client.{part}" for part in parts)):
            if self not in (log := logging.getLogger(name)).filters:
                log.addFilter(self)

    def __enter__(self) -> None:
        self._local.is_hiding = True

    def __exit__(self, *error: object) -> None:
        self._local.is_hiding = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self._local, "is_hiding", False)


_HIDDEN = _HiddenMessages()
