"""Run without Spark that `serve` observes, and requests to it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from headrace_serve.serve import Serve
from prometheus_client.parser import text_string_to_metric_families

from headrace.engine.run.observers import Observers
from headrace.progress.rates import TableStatus
from headrace.progress.status import Status
from headrace.sdk.observer import BatchProgress, TableProgress


@dataclass(frozen=True)
class Response:
    """Response of the server."""

    status: int
    headers: Mapping[str, str]
    text: str


def request(port: int, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Response:
    """Send a request on a connection of its own. Underscores in names of headers become hyphens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Response(answer.status, dict(answer.headers), answer.read().decode())
    finally:
        connection.close()


def parse_metrics(text: str) -> dict[str, float]:
    """Return the samples, ``name{label="value"}`` → value, with sorted labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def read_metrics(port: int) -> dict[str, float]:
    """Return the samples of a server."""
    answer = request(port, "/metrics")
    assert answer.status == 200, answer.text
    return parse_metrics(answer.text)


RUNNING = Status(True, "waiting for data", 0, None, has_answered=True)
ORDERS = TableStatus("shop.orders", "lake", latency_ms=1500, lag=0, lag_seconds=0.0, rows_per_second=2.5)


@dataclass
class ServedRun:
    """Run whose status tests set, and whose events they send."""

    serve: Serve
    status: Status = field(default_factory=lambda: replace(RUNNING, tables=(ORDERS,)))
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observers = Observers([self.serve], str, self.warnings.append)
        self.observers.open("shop", lambda: self.status)

    def get(self, path: str, **headers: str) -> Response:
        """Return the response after all events are received. A status that was read less than a second ago is outdated."""
        assert self.observers.drain(10)
        self.serve._record.version += 1
        return request(self.serve.port, path, **headers)

    def metrics(self) -> dict[str, float]:
        """Return the current samples."""
        return parse_metrics(self.get("/metrics").text)

    def commit(
        self, batch: int, *tables: TableProgress, seconds: float = 0.75, steps: Mapping[str, float] | None = None
    ) -> None:
        """Send a committed batch. ``steps``: step → seconds."""
        started = "2026-11-21T11:19:40.527+00:00"
        progress = BatchProgress("shop", batch, started, seconds, tables, steps=dict(steps or {}))
        self.observers.emit_batch(batch, progress)


@contextmanager
def serve_run(**options: Any) -> Iterator[ServedRun]:
    """Yield a run that is served on a free port."""
    run = ServedRun(Serve({"address": "127.0.0.1:0", **options}))
    try:
        yield run
    finally:
        run.observers.end(None)
        assert run.warnings == []
