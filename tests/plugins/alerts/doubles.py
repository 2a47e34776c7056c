"""Receivers of alerts on this machine, and a run without Spark."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from headrace_alerts.alert import Alert, Key
from headrace_alerts.alerts import Alerts
from tests.support.local_server import LocalServer
from tests.support.waiting import until

from headrace.engine.run.observers import Observers
from headrace.progress.rates import TableStatus
from headrace.progress.status import Status

RUNNING = Status(True, "waiting for data", 0, None, has_answered=True)
ORDERS = TableStatus(
    "shop.orders", "lake", latency_ms=1500, lag=0, lag_seconds=0.0, ended="2026-11-30T10:00:00.000+00:00"
)
SET_ASIDE = TableStatus(
    "shop.orders", "lake", error="table shop.orders: permission denied\n  fix: grant the role s3:PutObject"
)
#: Part of an address that nothing may show.
TOKEN = "T0KEN/B0KEN/canary4711"
FIRING = Alert(
    "shop", Key("failed.table", "shop.orders", "lake"), "shop.orders → lake is set aside", "denied\nfix: grant it", 1.0
)


@dataclass(frozen=True)
class Received:
    """Request that a web hook has received."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Hook(LocalServer):
    """Service that records requests, and answers with ``status``. While ``held`` is set, it does not answer."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.received: list[Received] = []
        self.status = 200
        self.held = threading.Event()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.endpoint_url}/services/{TOKEN}"

    def await_bodies(self, count: int) -> list[Any]:
        """Wait for a number of accepted requests, and return their bodies."""
        until(lambda: len(self.received) >= count, f"{count} requests, not {self.received}", 20)
        return [request.body for request in self.received]

    def __exit__(self, *details: object) -> None:
        self.released.set()
        super().__exit__(*details)


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def _answer(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.held.is_set():
            self.server.released.wait(60)
        if self.server.status < 300:
            body = json.loads(data) if data else None
            self.server.received.append(Received(self.command, self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = _answer  # noqa: N815 - the names in http.server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Log nothing."""


class SmtpServer:
    """Server that speaks SMTP, with STARTTLS and AUTH PLAIN if it has a certificate. It records mails."""

    def __init__(self, tls: ssl.SSLContext | None = None, password: str | None = None) -> None:
        self.tls, self.password = tls, password
        self.mails: list[tuple[list[str], str]] = []
        self.commands: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # It also ends a pending accept.
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with suppress(OSError), connection:
                    self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        with closing(_SmtpTalk(self, connection)) as talk:
            talk.say("220 test")
            while line := talk.read_line().strip():
                talk.answer(line)


class _SmtpTalk:
    """Connection of a client."""

    def __init__(self, server: SmtpServer, connection: socket.socket) -> None:
        self._server, self._connection, self._stream = server, connection, connection.makefile("rwb")
        self._recipients, self._is_encrypted = list[str](), False

    def close(self) -> None:
        with suppress(OSError), self._connection:
            self._stream.close()

    def say(self, text: str) -> None:
        self._stream.write(f"{text}\r\n".encode())
        self._stream.flush()

    def read_line(self) -> str:
        return self._stream.readline().decode().rstrip("\r\n")

    def answer(self, line: str) -> None:
        server, verb = self._server, line.split(maxsplit=1)[0].upper()
        server.commands.append(verb)
        if verb == "EHLO" and server.tls:
            self.say(f"250-test\r\n250 {'AUTH PLAIN' if self._is_encrypted else 'STARTTLS'}")
        elif verb == "STARTTLS":
            self.say("220 go")
            assert server.tls
            self._connection = server.tls.wrap_socket(self._connection, server_side=True)
            self._stream, self._is_encrypted = self._connection.makefile("rwb"), True
        elif verb == "AUTH":
            self.say("235 in" if server.password is None or server.password in line else "535 no")
        elif verb == "RCPT":
            self._recipients.append(line.partition("<")[2].rstrip(">"))
            self.say("250 ok")
        elif verb == "DATA":
            self.say("354 go")
            lines = list(iter(self.read_line, "."))
            server.mails.append((self._recipients, "\n".join(lines)))
            self.say("250 ok")
        else:
            self.say("221 bye" if verb == "QUIT" else "250 ok")


@dataclass
class AlertedRun:
    """Run whose status tests set, and whose events they send through the thread of the observer."""

    alerts: Alerts
    status: Status = RUNNING
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observers = Observers([self.alerts], str, self.warnings.append)
        self.observers.open("shop", lambda: self.status)


@contextmanager
def alert_about(*to: dict[str, Any], status: Status = RUNNING, **options: Any) -> Iterator[AlertedRun]:
    """Yield a run with these receivers, whose conditions are patient for 0 seconds."""
    patience = {"for": "0 seconds", "keep.firing.for": "0 seconds"}
    run = AlertedRun(Alerts({"to": list(to), **patience, **options}), status)
    try:
        yield run
    finally:
        run.observers.end(None)
