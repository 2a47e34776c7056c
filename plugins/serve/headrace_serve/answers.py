"""Answers to requests: metrics, probes, status and page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.resources import files

from headrace.sdk.error_text import hide_values
from headrace.sdk.observer import ObservedRun, Status
from headrace_serve.cached import Cached
from headrace_serve.metrics import CONTENT_TYPE, Metrics
from headrace_serve.page import render_page
from headrace_serve.probes import Readiness, find_death
from headrace_serve.run_record import RunRecord
from headrace_serve.serve_config import ServeConfig

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """Answer to a request."""

    status: int
    content_type: str
    body: bytes


class Answers:
    """Answers about one run. Threads may share it; results are computed once per change, or per second."""

    def __init__(self, run: ObservedRun, record: RunRecord, config: ServeConfig) -> None:
        self._run, self._record = run, record
        self._readiness = Readiness(config.ready)

        def version() -> int:
            return record.version

        self._status = Cached(run.status, version)
        metrics = Metrics(run, record, self._status.get, config.max_tables)
        self._metrics = Cached(metrics.render, version)
        self._json = Cached(self._make_json, version)
        self._page = Cached(self._make_page, version)
        #: Path → answer for requests with a login.
        self.paths: dict[str, Callable[[], Answer]] = {
            "/": lambda: Answer(200, "text/html; charset=utf-8", self._page.get()),
            "/metrics": lambda: Answer(200, CONTENT_TYPE, self._metrics.get()),
            "/status.json": lambda: Answer(200, "application/json", self._json.get()),
            "/page.css": lambda: Answer(200, "text/css; charset=utf-8", _read_file("page.css")),
            "/page.js": lambda: Answer(200, "text/javascript; charset=utf-8", _read_file("page.js")),
        }

    def answer_probe(self, path: str, *, shows_reasons: bool) -> Answer | None:
        """Return the answer of a probe, which needs no login; None for other paths. ``shows_reasons``: the request has a login."""
        if path not in ("/healthz", "/readyz"):
            return None
        try:
            status = self._status.get()
            reasons = [find_death(status)] if path == "/healthz" else self._readiness.find_delays(status)
        except Exception as error:  # noqa: BLE001 - an engine without a status does not run
            reasons = [f"the status cannot be read: {type(error).__name__}"]
        found = [hide_values(reason) for reason in reasons if reason]
        text = "ok" if not found else "\n".join(found) if shows_reasons else "failed"
        return Answer(503 if found else 200, _TEXT, f"{text}\n".encode())

    def _make_json(self) -> bytes:
        status = self._status.get()
        data = {"pipeline": self._run.pipeline, **_describe(status), "not_ready": self._readiness.find_delays(status)}
        return json.dumps(data, ensure_ascii=False, indent=2).encode() + b"\n"

    def _make_page(self) -> bytes:
        status = self._status.get()
        delays = self._readiness.find_delays(status)
        with self._record.hold():
            return render_page(self._run.pipeline, status, delays, self._record).encode()


def _describe(status: Status) -> dict[str, object]:
    """Return the status as JSON has it, without values of rows."""
    data = asdict(status)
    for part in (data, *data["tables"]):
        part["error"] = hide_values(part["error"]) if part["error"] else None
    return {**data, "message": hide_values(status.message)}


def _read_file(name: str) -> bytes:
    return (files("headrace_serve") / name).read_bytes()
