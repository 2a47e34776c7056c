import json
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from headrace_http_source import HttpSource
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import ConfigError, DataError, FatalError, HeadraceError, LoginError, RetriableError
from headrace.testing.sources import SourceConformance
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat

TOKEN = "the token of the tests"


class Server(ThreadingHTTPServer):
    """API server on its own port; each path has its records and returns at most three of them at a time."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.records: dict[str, list[Any]] = {}
        #: Responses sent once each instead of a page: status, body, and the declared length.
        self.instead: list[tuple[int, bytes, int]] = []
        self.requests = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        records = self.server.records.get(parts.path)
        self.server.requests += 1
        if self.server.instead:
            instead = self.server.instead.pop(0)
            status, body, length = instead
            self._send(status, body, length)
        elif self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._send(401, b"", 0)
        elif records is None:
            self._send(404, b"", 0)
        else:
            begin = int(query.get("after", "c0")[1:])
            items = records[begin : begin + min(3, int(query["limit"]))]
            page = {"items": items, "next": f"c{begin + len(items)}", "total": len(records)}
            body = json.dumps(page).encode()
            self._send(200, body, len(body))

    def _send(self, status: int, body: bytes, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def api() -> Iterator[Server]:
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class TestHttpSource(SourceConformance):
    plugin_class = HttpSource
    refused = ({"url": "ftp://api/people"}, {"page_size": 0})

    @pytest.fixture(autouse=True)
    def _server(self, api: Server) -> None:
        self.api = api

    def config(self, folder: Path) -> dict[str, Any]:
        self.api.records.setdefault(str(folder), [])
        return {"url": self.api.url(str(folder)), "topic": "shop.people", "token": TOKEN, "page_size": 2}

    def add(self, folder: Path, texts: Sequence[str]) -> None:
        self.api.records[str(folder)] += [{"name": text} for text in texts]


def source_of(api: Server, path: str, *records: Any, **options: Any) -> HttpSource:
    api.records[path] = list(records)
    return HttpSource(url=api.url(path), topic="shop.people", **{"token": TOKEN, **options})


@pytest.mark.parametrize(
    ("status", "body", "missing", "kind", "word"),
    [
        (401, b"", 0, LoginError, "`token`"),
        (403, b"", 0, LoginError, "`token`"),
        (404, b"", 0, ConfigError, "`url`"),
        (418, b"", 0, ConfigError, "418"),
        (429, b"", 0, RetriableError, "`page_size`"),
        (500, b"", 0, RetriableError, "500"),
        (200, b'{"items": [{"id": 1}, {"i', 9, RetriableError, "page is incomplete"),
        (200, b'{"items": [{"id": 1}, {"i', 0, RetriableError, "page is truncated"),
        (200, b"<html>log in</html>", 0, ConfigError, "`url`"),
        (200, b'{"data": []}', 0, DataError, "'items'"),
        (200, b"[]", 0, DataError, "items"),
        (200, b'{"items": [1, 2, 3, 4], "next": "c4", "total": 4}', 0, DataError, "`limit`"),
    ],
)
def test_invalid_responses_are_explained(
    api: Server, status: int, body: bytes, missing: int, kind: type[HeadraceError], word: str
) -> None:
    """``missing``: the number of declared bytes that the response does not contain."""
    source = source_of(api, "/errors", {"id": 1}, page_size=3)
    api.instead.append((status, body, len(body) + missing))
    with pytest.raises(kind) as caught:
        source.latest(source.initial(), None)
    assert type(caught.value) is kind
    assert caught.value.fix
    assert word in str(caught.value)
    assert api.url("/errors") in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert source.latest(source.initial(), None)["count"] == 1  # a failed request leaves no state


def test_unreachable_server_is_explained(api: Server) -> None:
    source = HttpSource(url="http://127.0.0.1:9/people", topic="shop.people")
    with pytest.raises(RetriableError, match="Connection refused"):
        source.latest(source.initial(), None)


def test_errors_on_executors_have_the_same_text(api: Server, headrace_spark: SparkSession) -> None:
    source = source_of(api, "/executors", *({"id": number} for number in range(7)))
    end = source.latest(source.initial(), None)
    frame = source.read(headrace_spark, source.initial(), end)
    assert TOKEN not in frame._jdf.queryExecution().toString()
    api.instead.append((401, b"", 0))
    with pytest.raises(Exception, match="LoginError") as caught:
        frame.collect()
    error = source.explain(caught.value)
    assert type(error) is LoginError
    assert (error.where, error.fix) == (f"source http_source, {api.url('/executors')}", "correct `token`")

    del api.records["/executors"][3]
    with pytest.raises(Exception, match="FatalError") as caught:
        frame.collect()
    error = source.explain(caught.value)
    assert type(error) is FatalError
    assert "the 7 records up to 'c7' have changed" in error.what


def test_pipeline_retries_and_continues(api: Server, headrace_spark: SparkSession, tmp_path: Path) -> None:
    source = source_of(api, "/people", limit=4)
    people = Pipeline(
        name="people",
        source=source,
        value=JsonFormat(),
        key="none",
        sinks=[FilesSink(path=str(tmp_path / "out"))],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    for count in (3, 7):
        stored = api.records["/people"]
        stored += [{"id": number, "name": f"name {number}"} for number in range(len(stored), count)]
        api.instead.append((500, b"", 0))
        people.run(headrace_spark)
        rows = people.read("shop.people").orderBy("id").collect()
        assert [(row.id, row.name) for row in rows] == [(number, f"name {number}") for number in range(count)]


def test_numbers_keep_their_digits(api: Server, headrace_spark: SparkSession) -> None:
    body = b'{"items": [{"price": 12345678901234567.10, "of": [1e400, -3, true, null, "\\u017e"]}], "next": "c1", "total": 1}'
    source = source_of(api, "/numbers", {"id": 1})
    api.instead.append((200, body, len(body)))
    (row,) = source.read(headrace_spark, source.initial(), {"after": "c1", "count": 1}).collect()
    assert row.value == '{"price": 12345678901234567.10, "of": [1e400, -3, true, null, "ž"]}'
