"""HTTP requests with a total deadline, a size limit, and redirects within one origin only."""

from __future__ import annotations

import io
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
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

#: Called with the address and the time of each server that answers ``send``, in seconds since 1970.
time_listener: ContextVar[Callable[[str, float], None] | None] = ContextVar("time_listener", default=None)


class RedirectError(OSError):
    """A redirect to another origin, which would receive the credentials. ``address`` is that origin."""

    def __init__(self, address: str) -> None:
        super().__init__(f"the server redirects to {address}")
        self.address = address


class ResponseTooLargeError(OSError):
    """A response that exceeds its size limit."""


@dataclass(frozen=True)
class Response:
    """A complete response of any status."""

    status: int
    reason: str
    body: bytes


def send(
    request: Request,
    *,
    idle_timeout: float,
    timeout: float,
    max_bytes: int,
    tls: ssl.SSLContext | None = None,
    use_proxies: bool = True,
) -> Response:
    """Send a request and return its response; follow redirects within the origin.

    ``idle_timeout``: seconds to connect, and between two reads; ``timeout``: seconds for the whole exchange. Raises OSError or
    HTTPException if the server is unreachable or too slow; RedirectError and ResponseTooLargeError are OSErrors.
    """
    proxies = () if use_proxies else (ProxyHandler({}),)
    opener = make_opener(_SameOriginRedirects(), _AnyStatus(), *proxies, timeout=timeout, tls=tls)
    try:
        with opener.open(request, timeout=idle_timeout) as response:
            _report_time(request.full_url, response.headers)
            body = response.read(max_bytes + 1)
            if len(body) > max_bytes:
                raise ResponseTooLargeError(f"the response exceeds {max_bytes:,} bytes")
            if response.length:  # `read` with a size does not raise when the connection closes early
                raise IncompleteRead(body, response.length)
            return Response(response.status, response.reason, body)
    except HTTPError as error:  # a redirect loop
        with error:
            return Response(error.code, str(error.reason), b"")


def _report_time(address: str, headers: Mapping[str, str]) -> None:
    """Report the time of a response, except that of a cache."""
    listener, date = time_listener.get(), headers.get("Date")
    if listener and date and "Age" not in headers:
        with suppress(ValueError, TypeError, OverflowError):
            listener(_origin(address), parsedate_to_datetime(date).timestamp())


def make_opener(*handlers: BaseHandler, timeout: float, tls: ssl.SSLContext | None = None) -> OpenerDirector:
    """Return a urllib opener whose reads raise TimeoutError ``timeout`` seconds from now."""
    deadline = time.monotonic() + timeout
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


class _SameOriginRedirects(HTTPRedirectHandler):
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
    """A response whose status line, headers and body are read until a deadline."""

    def __init__(self, sock: socket, *arguments: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, deadline))


class _DeadlineReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket, deadline: float) -> None:
        self._raw, self._socket, self._deadline = raw, sock, deadline
        self._idle_timeout = sock.gettimeout() or 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        remaining = self._deadline - time.monotonic()
        try:
            if remaining > 0:
                self._socket.settimeout(min(remaining, self._idle_timeout))
                return self._raw.readinto(buffer)
        except TimeoutError:
            if remaining > self._idle_timeout:
                raise
        raise TimeoutError("the response did not finish in time")

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
    """Return scheme, host and port of an address."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    port = "" if ":" in host.rpartition("]")[2] else {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return f"{parts.scheme}://{host}{port}"
