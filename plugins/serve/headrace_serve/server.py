"""HTTP server with a bounded number of connections, which it closes when they hang."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from headrace.sdk import ConfigError
from headrace.sdk.options import has_secret_name
from headrace_serve.answers import Answer, Answers
from headrace_serve.login import Login
from headrace_serve.serve_config import ServeConfig, is_loopback

#: Connections at a time. Further ones are refused, so that they do not take memory from the run.
CONNECTIONS = 32
#: Seconds after which a connection is closed that sends no request, or does not read the answer.
PATIENCE = 5.0
_TEXT = "text/plain; charset=utf-8"
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Server(ThreadingHTTPServer):
    """Server of one run. ``start`` binds nothing: the constructor does. ConfigError if the address cannot be bound."""

    daemon_threads, block_on_close, request_queue_size = True, False, 128

    def __init__(self, config: ServeConfig, answers: Answers) -> None:
        self.answers, self.login, self._config = answers, Login(config), config
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        #: Connection → time at which it began to wait for a request.
        self._waiting: dict[Any, float] = {}
        try:
            found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
            self.address_family = found[0][0]
            super().__init__((config.host, config.port), Handler)
        except OSError as error:
            fix = "stop the program that uses the port, or choose another `address`"
            what = f"{config.address} cannot be bound: {error.strerror or error}"
            raise ConfigError(what, where="serve", fix=fix) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(0.2,), name="headrace-serve", daemon=True)

    @property
    def port(self) -> int:
        """Port that is bound."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and all connections."""
        self.shutdown()
        self.server_close()
        self._thread.join()
        for connection in list(self._waiting):
            _break(connection)

    def accepts_host(self, header: str | None) -> bool:
        """Return whether a request names this server. Pages of other sites can only send other names to a local address."""
        if self.login.is_required or header is None:
            return True
        name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
        name = name.strip("[]").lower()
        return is_loopback(name) or name == self._config.host.lower()

    def note_answer(self, connection: Any) -> None:
        """Record that a connection has its answer, and may send the next request."""
        self._waiting[connection] = time.monotonic()

    def server_bind(self) -> None:
        """Bind the port, without a look-up of the host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self._config.host, self.port

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread, or refuse it if there are too many."""
        if not self._slots.acquire(blocking=False):
            request.setblocking(False)
            with suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        self.note_answer(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._release(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._release(request)

    def _release(self, request: Any) -> None:
        self._waiting.pop(request, None)
        self._slots.release()

    def service_actions(self) -> None:
        """Close connections that hang, also those that send their request byte by byte."""
        oldest = time.monotonic() - 2 * PATIENCE
        for connection, began in list(self._waiting.items()):
            if began < oldest:
                _break(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a connection, such as one that its client has closed."""


def _break(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Requests of one connection."""

    server: Server
    protocol_version, server_version, sys_version = "HTTP/1.1", "headrace", ""
    timeout: ClassVar[float] = PATIENCE
    # One packet per answer: a client delays the acknowledgment of the first of two.
    wbufsize, disable_nagle_algorithm = -1, True

    def do_GET(self) -> None:
        """Answer a request."""
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815 - the name in http.server

    def _answer(self) -> Answer:
        url = urlsplit(self.path)
        if not self.server.accepts_host(self.headers.get("Host")):
            return Answer(421, _TEXT, b"the header Host names another server\n")
        if any(has_secret_name(name) for name, _ in parse_qsl(url.query, keep_blank_values=True)):
            return Answer(400, _TEXT, b"a login in a URL is written into logs: send the header Authorization\n")
        has_login = self.server.login.accepts(self.headers.get("Authorization"))
        if probe := self.server.answers.answer_probe(url.path, shows_reasons=has_login):
            return probe
        return self._answer_path(url.path) if has_login else Answer(401, _TEXT, b"send the header Authorization\n")

    def _answer_path(self, path: str) -> Answer:
        make: Callable[[], Answer] | None = self.server.answers.paths.get(path)
        if make is None:
            return Answer(404, _TEXT, b"there are /, /metrics, /healthz, /readyz and /status.json\n")
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - the next request may succeed
            return Answer(500, _TEXT, f"the status cannot be read: {type(error).__name__}\n".encode())

    def _send(self, answer: Answer) -> None:
        if self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # Its body is not read.
        self.send_response(answer.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if answer.status == 401:
            self.send_header("WWW-Authenticate", self.server.login.challenge)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()
        self.server.note_answer(self.connection)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Log nothing: a request may contain a secret."""
