"""Proxy in front of an Iceberg REST catalog that issues tokens and storage credentials, and breaks responses.

Iceberg's own server checks no token and issues no credentials. The proxy stands in for the authentication of a catalog service, with the
requests and errors of the specification. All other requests are answered by the server.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.faulty_server import FaultyServer

from headrace_stack import IcebergRest

TOKENS = "/v1/oauth/tokens"
HTML = b"<!DOCTYPE html><html><body>Please log in</body></html>"


@dataclass(frozen=True)
class Fault:
    """Response instead of the server's; without a status the connection is reset."""

    status: int | None
    body: bytes = b""
    #: The server receives the request first.
    is_after_commit: bool = False


class RestProxy(FaultyServer[Fault]):
    """Proxy to ``rest``; the client ``headrace`` has the password ``secret``, and tokens expire after ``token_seconds``."""

    def __init__(self, rest: IcebergRest, *, token_seconds: float = 3600, requires_token: bool = True) -> None:
        super().__init__(_Handler)
        self.rest, self.secret = rest, "secret"
        self.token_seconds, self.requires_token = token_seconds, requires_token
        #: Properties that the catalog adds to a table for clients that ask for credentials.
        self.issue_credentials: Callable[[], Mapping[str, str]] = dict
        #: Methods and paths of all requests but reports of metrics, and the number of issued tokens.
        self.asked: list[tuple[str, str]] = []
        self.tokens_issued = 0
        self._ends: dict[str, float] = {}

    @property
    def properties(self) -> dict[str, str]:
        """Properties of a catalog that uses the proxy."""
        return {
            "type": "rest",
            "uri": self.endpoint_url,
            "credential": f"headrace:{self.secret}",
            "oauth2-server-uri": f"{self.endpoint_url}{TOKENS}",
            "scope": "catalog",
        }

    def find_fault(self, method: str, path: str) -> Fault | None:
        """Return the fault of a request. Reports of metrics get none, as Iceberg sends them in the background and ignores the response."""
        if path.endswith("/metrics"):
            return None
        with self._lock:
            self.asked.append((method, path))
        return super().find_fault(method, path)

    def issue_token(self) -> str:
        with self._lock:
            self.tokens_issued += 1
            token = f"token-{self.tokens_issued}"
            self._ends[token] = time.monotonic() + self.token_seconds
            return token

    def revoke_tokens(self) -> None:
        """Revoke all tokens, as a catalog that restarts with another key does."""
        self._ends.clear()

    def is_valid(self, token: str) -> bool:
        return time.monotonic() < self._ends.get(token, 0)

    def count_commits(self) -> int:
        """Count the requests that commit to a table."""
        return sum(method == "POST" and "/tables/" in path for method, path in self.asked)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore disconnected clients."""


class _Handler(BaseHTTPRequestHandler):
    server: RestProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.find_fault(self.command, self.path)
        if fault is not None and fault.is_after_commit:
            self._ask(body)
        if fault is not None and fault.status is None:
            # The next close sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif fault is not None:
            self._send(
                fault.status or 0, fault.body, "text/html" if fault.body.startswith(b"<") else "application/json"
            )
        elif urlsplit(self.path).path == TOKENS:
            self._send(*self._issue_token(parse_qs(body.decode())))
        elif self.server.requires_token and not self.server.is_valid(self._bearer):
            self._send(401, make_error(401, "NotAuthorizedException", "the token is expired or unknown"))
        else:
            status, content = self._ask(body)
            if "vended-credentials" in self.headers.get("X-Iceberg-Access-Delegation", "") and b'"metadata"' in content:
                answer = json.loads(content)
                answer["config"] = {**answer.get("config", {}), **self.server.issue_credentials()}
                content = json.dumps(answer).encode()
            self._send(status, content)

    do_GET = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815 - the names are given by the base class

    @property
    def _bearer(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _issue_token(self, form: Mapping[str, list[str]]) -> tuple[int, bytes]:
        """Return the response to a request for a token: by client credentials, or in exchange for a valid token."""
        login = ":".join(form.get(name, [""])[0] for name in ("client_id", "client_secret"))
        if (basic := self.headers.get("Authorization", "")).startswith("Basic "):
            login = base64.b64decode(basic.removeprefix("Basic ")).decode()
        exchanged = form.get("subject_token", [""])[0]
        if login != f"headrace:{self.server.secret}" and not self.server.is_valid(exchanged):
            refusal = {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
            return 401, json.dumps(refusal).encode()
        kind = "urn:ietf:params:oauth:token-type:access_token"
        token: dict[str, Any] = {"access_token": self.server.issue_token(), "token_type": "bearer"}
        token |= {"expires_in": int(self.server.token_seconds), "issued_token_type": kind}
        return 200, json.dumps(token).encode()

    def _ask(self, body: bytes) -> tuple[int, bytes]:
        """Return the response of the server."""
        connection = HTTPConnection(self.server.rest.host, self.server.rest.port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "if-none-match"}
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _send(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def make_error(status: int, kind: str, message: str) -> bytes:
    """Return an error in the format of the specification."""
    return json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()
