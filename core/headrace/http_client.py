"""HTTP that ends: an answer takes so long and is so large at most, and no redirect leads to another host."""

from __future__ import annotations

import io
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from socket import socket
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    BaseHandler,
    HTTPDefaultErrorHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)


class RedirectError(OSError):
    """An answer that leads to another host or scheme, which would get the login; ``address`` is there."""

    def __init__(self, address: str) -> None:
        super().__init__(f"it redirects to {address}")
        self.address = address


class AnswerTooLargeError(OSError):
    """An answer of more bytes than were asked for."""


@dataclass(frozen=True)
class Answer:
    """What came back, whatever its status."""

    status: int
    reason: str
    body: bytes


def send(
    request: Request,
    *,
    silence: float,
    seconds: float,
    most_bytes: int,
    tls: ssl.SSLContext | None = None,
    use_proxies: bool = True,
) -> Answer:
    """Sends a request and reads its answer, with redirects on the same host.

    ``silence``: seconds to wait for a connection, and for any next byte; ``seconds``: for all of it. OSError or HTTPException
    when nobody answers in time; RedirectError and AnswerTooLargeError are OSErrors, too.
    """
    proxies = () if use_proxies else (ProxyHandler({}),)
    opener = make_opener(_SameHost(), _AnyStatus(), *proxies, seconds=seconds, tls=tls)
    try:
        with opener.open(request, timeout=silence) as answer:
            body = answer.read(most_bytes + 1)
            if len(body) > most_bytes:
                raise AnswerTooLargeError(f"it sends more than {most_bytes:,} bytes")
            if answer.length:  # of a body that is read in parts, Python does not miss the end
                raise IncompleteRead(body, answer.length)
            return Answer(answer.status, answer.reason, body)
    except HTTPError as error:  # a circle of redirects
        with error:
            return Answer(error.code, str(error.reason), b"")


def make_opener(*handlers: BaseHandler, seconds: float, tls: ssl.SSLContext | None = None) -> OpenerDirector:
    """Python's own opener, of which all answers end so many seconds from now: with a TimeoutError where they do not."""
    deadline = time.monotonic() + seconds
    return build_opener(_Http(deadline), _Https(deadline, tls), *handlers)


class _Http(HTTPHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._connect = partial(_connect, HTTPConnection, deadline)

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._connect, req)


class _Https(HTTPSHandler):
    def __init__(self, deadline: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(context=tls)
        self._connect = partial(_connect, HTTPSConnection, deadline, context=tls)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self._connect, req)


class _SameHost(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if _origin(newurl) != _origin(req.full_url):
            raise RedirectError(_origin(newurl))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _AnyStatus(HTTPDefaultErrorHandler):
    def http_error_default(self, req: Request, fp: Any, code: int, msg: str, hdrs: Any) -> Any:
        return fp


class _Response(HTTPResponse):
    """An answer that is read until a deadline, its status and headers too."""

    def __init__(self, sock: socket, *arguments: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_UntilDeadline(self.fp.detach(), sock, deadline))


class _UntilDeadline(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket, deadline: float) -> None:
        self._raw, self._socket, self._deadline = raw, sock, deadline
        self._silence = sock.gettimeout() or 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        try:
            if left > 0:
                self._socket.settimeout(min(left, self._silence))
                return self._raw.readinto(buffer)
        except TimeoutError:
            if left > self._silence:
                raise
        raise TimeoutError("the answer did not end in time")

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connect(
    connection_class: Callable[..., HTTPConnection], deadline: float, host: str, **options: Any
) -> HTTPConnection:
    connection = connection_class(host, **options)
    connection.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]
    return connection


def _origin(address: str) -> str:
    """Scheme, host and port of an address."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    port = "" if ":" in host.rpartition("]")[2] else {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return f"{parts.scheme}://{host}{port}"
