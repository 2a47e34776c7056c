"""Run without Spark that `openlineage` observes, and a collector that records its events."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from headrace_openlineage.openlineage_observer import OpenLineage
from tests.support.local_server import LocalServer

from headrace.engine.run.observers import Observers
from headrace.sdk import Dataset
from headrace.sdk.observer import (
    BatchProgress,
    ColumnSource,
    LineageInput,
    RunEventKind,
    Status,
    TableLineage,
    TableProgress,
)

ORDERS = TableProgress("shop.orders", "lake", rows_in=10, applied=8, late=1, superseded=1, bytes=100, seconds=0.5)
PEOPLE = TableProgress("shop.people", "lake", rows_in=1, applied=1, late=0, superseded=0, seconds=0.1)
LINEAGE = TableLineage(
    "shop.orders",
    inputs={
        "db.orders": LineageInput(
            Dataset("kafka://broker:9092", "db.orders"), {"id": "int", "email": "string", "total": "string"}
        )
    },
    outputs={"lake": Dataset("s3://lake", "silver/shop/orders"), "console": None},
    types={"id": "int", "mail": "string", "sum": "decimal(10,2)", "site": "string"},
    sources={
        "id": frozenset({ColumnSource("db.orders", "id")}),
        "mail": frozenset({ColumnSource("db.orders", "email", is_changed=True, is_masked=True)}),
        "sum": frozenset({ColumnSource("db.orders", "total", is_changed=True)}),
        "site": frozenset(),
    },
    filters=frozenset({ColumnSource("db.orders", "id")}),
)


@dataclass
class ObservedRun:
    """Run that sends its events to the observer."""

    observer: OpenLineage = field(default_factory=lambda: OpenLineage({"running.interval": "1 hour"}))
    lineage: dict[str, TableLineage] = field(default_factory=lambda: {"shop.orders": LINEAGE})
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observers = Observers([self.observer], str, self.warnings.append)
        self.observers.open("shop", lambda: Status(True, "", 0, None), lambda: dict(self.lineage))
        self.observers.emit(RunEventKind.RUN_STARTED)

    def commit(self, batch: int, *tables: TableProgress) -> None:
        """Send a committed batch."""
        self.observers.emit_batch(batch, BatchProgress("shop", batch, "2026-11-21T11:19:40.527+00:00", 0.75, tables))

    def end(self, error: object = None) -> None:
        """End the run."""
        assert self.observers.drain(10)
        self.observers.end(error)


class CollectorServer(LocalServer):
    """Collector that answers with a status, with a page, or not at all."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.status, self.content_type, self.is_hanging = 201, "application/json", False
        self.events: list[dict[str, Any]] = []
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.released = threading.Event()

    def __exit__(self, *error: object) -> None:
        self.released.set()
        super().__exit__(*error)


class _Handler(BaseHTTPRequestHandler):
    server: CollectorServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.requests.append((self.path, dict(self.headers)))
        if server.is_hanging:
            server.released.wait(60)
            return
        if server.status < 300 and "html" not in server.content_type:
            server.events.append(json.loads(body))
        self.send_response(server.status)
        self.send_header("Content-Type", server.content_type)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Log nothing."""
