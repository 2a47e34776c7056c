"""Observer that reports the lineage of a run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, ObservedRun, Observer, RunEvent
from headrace.sdk.options import seconds_of
from headrace_openlineage.openlineage_config import OpenLineageConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_openlineage.event_stream import EventStream
    from headrace_openlineage.outbox import Outbox

#: Seconds for which the end of a run waits until the last events are sent. The run itself waits five seconds.
_END_SECONDS = 4.0


class OpenLineage(Observer):
    """``openlineage: {}``, a key of the pipeline file."""

    name = "openlineage"
    api_version = 1
    Config = OpenLineageConfig
    config: OpenLineageConfig

    def check(self, spark: SparkSession | None = None) -> None:
        if not _is_installed():
            what, fix = "openlineage-python is not installed", "pip install 'headrace[openlineage]'"
            raise ConfigError(what, where="openlineage", fix=fix)
        from headrace_openlineage.collector import Collector

        Collector()

    def warnings(self) -> Iterable[str]:
        if not _is_installed():  # `check` reports it.
            return
        from headrace_openlineage.collector import Collector

        with suppress(ConfigError):
            if Collector().is_console:
                yield "the events are printed to stderr: set OPENLINEAGE_URL, or name a transport in openlineage.yml"

    def notes(self) -> Iterable[str]:
        yield f"the jobs are in the namespace {self.config.job_namespace}"

    def open(self, run: ObservedRun) -> None:
        from headrace_openlineage.collector import Collector
        from headrace_openlineage.event_stream import EventStream
        from headrace_openlineage.outbox import Outbox

        self._outbox: Outbox = Outbox(Collector(), run.warn)
        interval = seconds_of(self.config.running_interval)
        self._stream: EventStream = EventStream(
            run, self.config.job_namespace, interval, time.monotonic, self._outbox.put
        )
        self._outbox.start()

    def observe(self, event: RunEvent) -> None:
        self._stream.add(event)

    def close(self) -> None:
        self._outbox.end(time.monotonic() + _END_SECONDS)


def _is_installed() -> bool:
    return find_spec("openlineage") is not None and find_spec("openlineage.client") is not None
