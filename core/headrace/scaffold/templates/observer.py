"""Observer that appends the events of a run to a file, one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.sdk import Config, ObservedRun, Observer, RunEvent, hookimpl


class ExampleConfig(Config):
    """File of the events."""

    path: str
    """A file on the driver."""


class Example(Observer):
    """``example: {path: events.jsonl}``, a key of the pipeline file."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def open(self, run: ObservedRun) -> None:
        file = Path(self.config.path)  # an error here stops the start of the run, before the first batch
        file.parent.mkdir(parents=True, exist_ok=True)
        self._pipeline, self._file = run.pipeline, file.open("a", encoding="utf-8")

    def observe(self, event: RunEvent) -> None:
        tables = event.progress.tables if event.progress else ()
        # A table with an error is not written, and an earlier attempt has written a skipped one.
        applied = {table.table: table.applied for table in tables if table.error is None and not table.skipped}
        about = {"table": event.table, "batch": event.batch, "error": event.error, "applied": applied}
        values = {name: value for name, value in about.items() if value not in (None, {})}
        self._file.write(json.dumps({"pipeline": self._pipeline, "event": event.kind, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@hookimpl
def headrace_observers() -> dict[str, type[Observer]]:
    """Return the observers of runs by the key of the pipeline file that has their options."""
    return {"example": Example}
