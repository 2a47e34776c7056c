"""Limits of the schema registry client: no credentials for other hosts, bounded time, and bounded memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace.errors import ConfigError, DataError, RetriableError
from headrace.sdk import LoginError
from headrace_kafka import registry_client as client
from headrace_kafka.registry_client import RegistryClient
from headrace_sources.registries import http_registries
from headrace_sources.registries.http_registries import ConfluentRegistry

Answer = Callable[[BaseHTTPRequestHandler], None]


def fetch_schema(url: str, **options: str) -> str:
    """Return the Avro schema 1 of Confluent's registry at ``url``."""
    return ConfluentRegistry(RegistryClient(url, **options)).fetch_schema("1", "AVRO")


class Server(ThreadingHTTPServer):
    """Registry that answers by path; ``requests`` holds the path and credentials of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers["Authorization"]))
        answer = self.server.answers[self.path]
        if callable(answer):
            answer(self)
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def quote_request(handler: BaseHTTPRequestHandler) -> None:
    """Reject a request like a proxy that quotes its headers, behind a long text."""
    handler.send_response(403)
    handler.end_headers()
    handler.wfile.write(b"x" * 160 + b" headers: {" + str(handler.headers["Authorization"]).encode() + b"}")


def redirect(address: str, status: int = 302) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Location", address)
        handler.end_headers()

    return answer


def drip(text: bytes) -> Answer:
    """Send one byte at a time. Each byte arrives before the timeout, but the whole response does not."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        with suppress(ConnectionError):
            for i in range(len(text)):
                handler.wfile.write(text[i : i + 1])
                time.sleep(0.02)

    return answer


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSES", ())


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.5)


@pytest.fixture
def server() -> Iterator[Server]:
    yield from _serve()


@pytest.fixture
def other_host() -> Iterator[Server]:
    yield from _serve()


def _serve() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


def schema(text: Any, *references: str) -> dict[str, Any]:
    found = [{"name": name, "subject": name, "version": 1} for name in references]
    return {"schema": json.dumps(text), "references": found}


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_credentials_are_not_sent_to_another_host(self, server: Server, other_host: Server, status: int) -> None:
        server.answers["/schemas/ids/1"] = redirect(f"{other_host.url}/schemas/ids/1", status)
        other_host.answers["/schemas/ids/1"] = schema("string")
        with pytest.raises(ConfigError) as raised:
            fetch_schema(server.url, login="me:secret")
        assert other_host.requests == []
        assert str(raised.value) == (
            f"{server.url}/schemas/ids/1: the schema registry redirects to {other_host.url}\n"
            "  fix: set `registry:` to that address if it is the registry: credentials are not sent to another host"
        )

    def test_credentials_are_not_sent_to_another_scheme(self, server: Server) -> None:
        server.answers["/schemas/ids/1"] = redirect(f"{server.url.replace('http', 'https')}/schemas/ids/1")
        with pytest.raises(ConfigError, match=r"redirects to https://127\.0\.0\.1:\d+\n"):
            fetch_schema(server.url, token="secret")

    def test_redirect_on_same_host_keeps_credentials(self, server: Server) -> None:
        server.answers |= {"/schemas/ids/1": redirect("/v2/schemas/ids/1"), "/v2/schemas/ids/1": schema("string")}
        assert fetch_schema(server.url, token="secret") == '"string"'
        assert server.requests == [("/schemas/ids/1", "Bearer secret"), ("/v2/schemas/ids/1", "Bearer secret")]

    def test_redirect_loop_ends(self, server: Server) -> None:
        server.answers["/schemas/ids/1"] = redirect("/schemas/ids/1")
        with pytest.raises(RetriableError, match="returned 302"):
            fetch_schema(server.url)

    def test_error_shows_redirect_without_credentials_and_control_characters(self, server: Server) -> None:
        server.answers["/schemas/ids/1"] = redirect("http://me:secret@a\x07b/")
        with pytest.raises(ConfigError, match=r"redirects to http://a%07b:80\n"):
            fetch_schema(server.url)


class TestBounds:
    @pytest.mark.usefixtures("short_timeout")
    def test_slow_response_times_out(self, server: Server) -> None:
        body = json.dumps(schema("string")).encode()
        server.answers["/schemas/ids/1"] = drip(b"HTTP/1.0 200 OK\r\n\r\n" + body)
        with pytest.raises(
            RetriableError, match="the schema registry did not respond: the response did not finish in time"
        ):
            fetch_schema(server.url)

    @pytest.mark.usefixtures("short_timeout")
    def test_slow_headers_time_out(self, server: Server) -> None:
        server.answers["/schemas/ids/1"] = drip(b"HTTP/1.0 200 OK\r\nX: " + b"x" * 60 + b'\r\n\r\n{"schema": "string"}')
        with pytest.raises(
            RetriableError, match="the schema registry did not respond: the response did not finish in time"
        ):
            fetch_schema(server.url)

    @pytest.mark.parametrize("status", [200, 500])
    def test_oversized_response_is_rejected(self, server: Server, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.end_headers()
            handler.wfile.write(b" " * 2_000_000 + json.dumps(schema("string")).encode())

        monkeypatch.setattr(client, "TIMEOUT", 30)
        monkeypatch.setattr(client, "REGISTRY_RESPONSE_BYTES", 1_000_000)
        server.answers["/schemas/ids/1"] = answer
        with pytest.raises(ConfigError, match="not a schema registry: the response exceeds 1,000,000 bytes"):
            fetch_schema(server.url)

    def test_truncated_response_is_retriable(self, server: Server) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"schema": ')

        server.answers["/schemas/ids/1"] = answer
        with pytest.raises(RetriableError, match="did not respond: IncompleteRead"):
            fetch_schema(server.url)


def answer_nested(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"[" * 100_000)


@pytest.mark.parametrize("body", ["[]", "5", "null", '"text"', "{}", '{"schema": null}', '{"schema": 5}'])
def test_json_of_another_server_is_explained(server: Server, body: str) -> None:
    server.answers["/schemas/ids/1"] = json.loads(body)
    with pytest.raises(ConfigError, match="the server is not a schema registry: it has no schema 1 in its response"):
        fetch_schema(server.url)


def test_deeply_nested_response_is_not_json(server: Server) -> None:
    server.answers["/schemas/ids/1"] = answer_nested
    with pytest.raises(ConfigError, match="its response is not JSON"):
        fetch_schema(server.url)


NODE = {"type": "record", "name": "Node", "fields": [{"name": "n", "type": "int"}]}


class TestReferences:
    def test_cyclic_references_are_rejected(self, server: Server) -> None:
        server.answers |= {
            "/schemas/ids/1": schema("Node", "a"),
            "/subjects/a/versions/1?deleted=true": schema(NODE, "b"),
            "/subjects/b/versions/1?deleted=true": schema(NODE, "a"),
        }
        with pytest.raises(DataError) as raised:
            fetch_schema(server.url)
        assert str(raised.value) == (
            f"{server.url}: the references of a schema cannot be resolved: subjects/a/versions/1?deleted=true refers to itself, directly "
            "or through others\n  fix: register the schema without that reference, or exclude the topic"
        )

    def test_shared_references_are_requested_once(self, server: Server) -> None:
        """Each level refers twice to the next level, so requests would double per level without a cache."""
        server.answers["/schemas/ids/1"] = schema("Node", "a0", "b0")
        for i in range(10):
            deeper = () if i == 9 else (f"a{i + 1}", f"b{i + 1}")
            for letter in "ab":
                server.answers[f"/subjects/{letter}{i}/versions/1?deleted=true"] = schema(NODE, *deeper)
        assert json.loads(fetch_schema(server.url)) == NODE
        assert len(server.requests) == 21

    def test_too_many_references_are_rejected(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_registries, "SCHEMA_REFERENCES", 20)
        server.answers["/schemas/ids/1"] = schema("Node", "a0")
        server.answers |= {f"/subjects/a{i}/versions/1?deleted=true": schema(NODE, f"a{i + 1}") for i in range(30)}
        server.answers["/subjects/a30/versions/1?deleted=true"] = schema(NODE)
        with pytest.raises(DataError, match="it refers to more than 20 schemas"):
            fetch_schema(server.url)


@pytest.mark.parametrize("options", [{"login": "me:s3cr3t-and-long-enough"}, {"token": "t0ken-of-some-length"}])
def test_rejection_that_quotes_the_request_does_not_show_the_login(server: Server, options: dict[str, str]) -> None:
    server.answers["/schemas/ids/1"] = quote_request
    with pytest.raises(ConfigError, match="permission denied") as raised:
        fetch_schema(server.url, **options)
    assert not isinstance(raised.value, LoginError), "other secrets do not give a permission"
    assert "fix: allow this user to read schemas and subjects" in str(raised.value)
    assert "******" in str(raised.value)
    assert not [word for word in ("czNjcjN0", "bWU6", "t0ken", "s3cr3t") if word in str(raised.value)]
