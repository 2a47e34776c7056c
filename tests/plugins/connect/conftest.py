"""A server that answers like Kafka Connect, and pipeline files with a block ``connect:``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.local_server import LocalServer

from headrace_connect import connect_client, deployment

#: Response of a path: the status, and the body as JSON or text.
Answer = tuple[int, Any]
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
CONFIG = {
    "connector.class": POSTGRES,
    "database.hostname": "db",
    "database.user": "debezium",
    "database.password": "${file:/etc/connect/db.properties:password}",
    "database.dbname": "shop",
    "table.include.list": "public.orders",
}


def make_status(connector: str, *tasks: str, trace: str = "") -> Answer:
    """Return a status as the worker of Kafka 4.3 sends it."""
    worker = {"worker_id": "127.0.0.1:8083", "version": "3.6.1.Final"}
    listed = [
        {"id": n, "state": s, **worker, **({"trace": trace} if s == "FAILED" else {})} for n, s in enumerate(tasks)
    ]
    own = {"trace": trace} if connector == "FAILED" else {}
    return 200, {"name": "shop", "connector": {"state": connector, **worker, **own}, "tasks": listed, "type": "source"}


def make_validation(**errors: str) -> Answer:
    """Return a validation as the worker sends it, with some of the connector's options and these errors."""
    names = [*CONFIG, "name", "tasks.max", "slot.name", *errors]
    values = [{"name": name, "errors": [errors[name]] if name in errors else [], "visible": True} for name in names]
    configs = [{"definition": {"name": value["name"]}, "value": value} for value in values]
    return 200, {"name": POSTGRES, "error_count": len(errors), "groups": [], "configs": configs}


class FakeConnect(LocalServer):
    """Server with answers for each method and path: in order, and the last one again and again. It records all requests.

    It stands in for workers in states that real ones are in for moments only. ``test_live_connect`` uses real workers.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.requests: list[tuple[str, str, Any]] = []
        self.logins: set[str | None] = set()
        self._answers: dict[str, list[Answer]] = {}
        self.answer("GET /connector-plugins", (200, [{"class": POSTGRES, "type": "source", "version": "3.6.1.Final"}]))
        self.answer(f"PUT /connector-plugins/{POSTGRES}/config/validate", make_validation())
        self.answer("GET /connectors", (200, ["shop", "museum"]))
        self.answer("PUT /connectors/shop/config", (201, {"name": "shop"}))

    def answer(self, request: str, *answers: Answer) -> None:
        self._answers[request] = list(answers)

    def find_answer(self, request: str) -> Answer:
        answers = self._answers.get(request, [(404, {"error_code": 404, "message": "Connector shop not found"})])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def sent(self, method: str) -> list[tuple[str, Any]]:
        """Return paths and bodies of the requests that are not validations."""
        return [(path, body) for kind, path, body in self.requests if kind == method and "validate" not in path]


class _Handler(BaseHTTPRequestHandler):
    server: FakeConnect

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.logins.add(self.headers.get("Authorization"))
        self.server.requests.append((self.command, self.path, json.loads(body) if body else None))
        status, content = self.server.find_answer(f"{self.command} {self.path}")
        data = (
            content.encode()
            if isinstance(content, str)
            else json.dumps(content).encode()
            if content is not None
            else b""
        )
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names are given by the base class

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given by the base class
        """Log nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeConnect]:
    for module, name, value in (
        (deployment, "SETTLE", 0.1),
        (deployment, "POLL", 0.01),
        (connect_client, "_PAUSE", 0.01),
    ):
        monkeypatch.setattr(module, name, value)
    with FakeConnect() as fake:
        yield fake


@pytest.fixture
def write_pipeline(tmp_path: Path) -> Callable[..., Path]:
    def write(url: str, config: dict[str, Any] | None = None, **options: Any) -> Path:
        file = tmp_path / "pipeline.yaml"
        pipeline = {
            "name": "shop",
            "source": {
                "kafka": {"bootstrap.servers": "broker:9092", "subscribe": "shop.public.orders"},
                "value": "json",
            },
            "sink": "console",
            "checkpoint": "checkpoint/",
            "connect": {"url": url, "config": {**CONFIG, **(config or {})}, **options},
        }
        file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
        return file

    return write
