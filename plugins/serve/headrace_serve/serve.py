"""Observer that serves metrics, probes and a page of a run."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, ObservedRun, Observer, RunEvent
from headrace_serve.run_record import RunRecord
from headrace_serve.serve_config import ServeConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_serve.server import Server


class Serve(Observer):
    """``serve: {address: "127.0.0.1:8080"}``, a key of the pipeline file."""

    name = "serve"
    api_version = 1
    Config = ServeConfig
    config: ServeConfig

    def check(self, spark: SparkSession | None = None) -> None:
        if find_spec("prometheus_client") is None:
            what, fix = "prometheus-client is not installed", "pip install 'headrace[serve]'"
            raise ConfigError(what, where="serve", fix=fix)

    def notes(self) -> Iterable[str]:
        yield f"the run answers on http://{self.config.address}: /, /metrics, /healthz, /readyz, /status.json"

    def warnings(self) -> Iterable[str]:
        if not self.config.is_local:
            yield f"logins to {self.config.address} are sent without encryption: use it behind a proxy with TLS, or in a private network"

    def open(self, run: ObservedRun) -> None:
        from headrace_serve.answers import Answers  # imports prometheus-client
        from headrace_serve.server import Server

        self._record = RunRecord(self.config.max_tables)
        self._server: Server = Server(self.config, Answers(run, self._record, self.config))
        self._server.start()

    @property
    def port(self) -> int:
        """Port of an open server."""
        return self._server.port

    def observe(self, event: RunEvent) -> None:
        self._record.add(event)

    def close(self) -> None:
        self._server.stop()
