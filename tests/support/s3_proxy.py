"""Proxy in front of an S3 server that injects S3's throttling, broken connections and late listings.

Its error responses are copied from S3's documentation. The server handles all other requests, including signatures. The server does
not support session tokens, so the proxy signs such requests again with the server's keys.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.support.faulty_server import FaultyServer

from headrace_stack import S3

#: Headers that apply to a single connection.
_HOP = ("connection", "transfer-encoding", "content-length", "date", "server")
#: Headers of an upload in AWS's chunked encoding.
_CHUNKED = ("x-amz-decoded-content-length", "x-amz-trailer", "content-encoding")
_ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message>{}<RequestId>1</RequestId></Error>'


@dataclass(frozen=True)
class Fault:
    """Injected response; without a status the connection is reset."""

    status: int | None
    code: str = ""
    message: str = ""
    #: Further XML elements of the error.
    more: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Send no response until the client disconnects.
    is_silent: bool = False


class S3Proxy(FaultyServer[Fault]):
    """Proxy to ``s3``; requests selected by ``fail`` get a fault."""

    def __init__(self, s3: S3) -> None:
        super().__init__(_Handler)
        self.s3 = s3
        #: Network delay of each request, in seconds.
        self.delay = 0.0
        #: Methods and addresses of all requests.
        self.asked: list[tuple[str, str]] = []
        #: Received session tokens, and those that have expired.
        self.tokens, self.expired_tokens = set[str](), set[str]()
        #: Number of uploads after which every token expires that is in use then; None for never.
        self.uploads_before_expiry: int | None = None
        #: Seconds for which listings omit a new object, as in S3 before December 2020.
        self.lists_late_by = 0.0
        self._written_at: dict[str, float] = {}

    @property
    def hadoop_options(self) -> dict[str, str]:
        return {**self.s3.hadoop_options, "fs.s3a.endpoint": self.endpoint_url}

    def has_expired(self, method: str, token: str | None) -> bool:
        """Return whether a session token has expired when a request with it arrives."""
        with self._lock:
            if method == "PUT" and self.uploads_before_expiry is not None:
                self.uploads_before_expiry -= 1
                if self.uploads_before_expiry < 0:
                    self.uploads_before_expiry = None
                    self.expired_tokens |= {*self.tokens, *([token] if token else ())}
            return token in self.expired_tokens

    def note_made(self, path: str) -> None:
        """Note a written object; an overwritten object stays in listings."""
        with self._lock:
            self._written_at.setdefault(unquote(urlsplit(path).path).strip("/"), time.monotonic())

    def leave_out_new(self, bucket: str, listing: bytes) -> bytes:
        """Return a listing without the newest objects."""

        def keep(entry: re.Match[str]) -> str:
            key = re.search(r"<Key>(.*?)</Key>", entry.group())
            written_at = self._written_at.get(f"{bucket}/{unquote(key.group(1))}") if key else None
            is_new = written_at is not None and time.monotonic() - written_at < self.lists_late_by
            return "" if is_new else entry.group()

        with self._lock:
            return re.sub(r"<Contents>.*?</Contents>", keep, listing.decode(), flags=re.DOTALL).encode()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore disconnected clients."""


class _Handler(BaseHTTPRequestHandler):
    server: S3Proxy
    protocol_version = "HTTP/1.1"
    # Otherwise a response in several packets waits 40 ms for an acknowledgment of the first packet.
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, unquote(self.path)))
        time.sleep(self.server.delay)
        fault = self.server.find_fault(self.command, self.path)
        if self.server.has_expired(self.command, self.headers.get("X-Amz-Security-Token")):
            fault = Fault(400, "ExpiredToken", "The provided token has expired.")
        if fault is None:
            status, headers, content = self._ask(body)
            if self.command == "PUT" and status == HTTPStatus.OK:
                self.server.note_made(self.path)
            if self.server.lists_late_by and self.command == "GET" and "list-type=2" in self.path:
                bucket = urlsplit(self.path).path.strip("/")
                content = self.server.leave_out_new(bucket, content)
        elif fault.is_silent:
            self.connection.recv(1)
            self.close_connection = True
            return
        elif fault.status is None:
            # The next close sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        else:
            status, headers = fault.status, {"Content-Type": "application/xml", **fault.headers}
            content = _ERROR.format(fault.code, fault.message, fault.more).encode()
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command != "HEAD":
            headers = {name.lower(): value for name, value in headers.items()}
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names are given by the base class

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Return the response of the server. The Host header is passed on because it is signed."""
        connection = HTTPConnection(self.server.s3.host, self.server.s3.port, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            headers, body = self._sign(body)
            for name, value in headers.items():
                if name not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            if self.command == "HEAD" and (length := answer.getheader("Content-Length")):
                kept["Content-Length"] = length
            return answer.status, kept, content
        finally:
            connection.close()

    def _sign(self, body: bytes) -> tuple[Mapping[str, str], bytes]:
        """Return the received headers and body; replace a session token by a new signature."""
        headers, s3 = {name.lower(): value for name, value in self.headers.items()}, self.server.s3
        token = headers.pop("x-amz-security-token", None)
        if token is None:
            return headers, body
        self.server.tokens.add(token)
        if "x-amz-decoded-content-length" in headers:
            # The signatures of the chunks continue the replaced signature.
            body, checksums = _join_chunks(body)
            kept = {name: value for name, value in headers.items() if name not in _CHUNKED}
            headers = {**kept, **checksums, "content-length": str(len(body))}
        request = AWSRequest(self.command, f"http://{headers['host']}{self.path}", headers, body)
        S3SigV4Auth(Credentials(s3.access_key, s3.secret_key), "s3", s3.region).add_auth(request)
        return dict(request.headers.items()), body

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _join_chunks(body: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Return the content and the checksums of an upload in AWS's chunked encoding.

    A chunk is ``SIZE[;chunk-signature=…]`` and its content. The last one is empty, and the checksums follow.
    """
    content, begin, size = b"", 0, -1
    while size:
        end = body.index(b"\r\n", begin)
        size = int(body[begin:end].partition(b";")[0], 16)
        content += body[end + 2 : end + 2 + size]
        begin = end + 2 + size + (2 if size else 0)
    trailers = (line.split(":", 1) for line in body[begin:].decode().split() if ":" in line)
    return content, {name: value for name, value in trailers if name.startswith("x-amz-checksum-")}
