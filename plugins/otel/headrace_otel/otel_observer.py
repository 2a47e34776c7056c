"""Observer that sends traces and metrics of a run."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, ObservedRun, Observer, RunEvent
from headrace_otel.otel_config import OtelConfig, find_other_protocol, read_exporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_otel.exporters import Providers
    from headrace_otel.run_metrics import RunMetrics
    from headrace_otel.run_traces import RunTraces

#: Seconds for which the end of a run waits until everything is sent. The run itself waits five seconds.
_END_SECONDS = 4.0
_SCOPE = "headrace"


class Otel(Observer):
    """``otel: {}``, a key of the pipeline file."""

    name = "otel"
    api_version = 1
    Config = OtelConfig
    config: OtelConfig

    def check(self, spark: SparkSession | None = None) -> None:
        if not all(map(find_spec, ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"))):
            what, fix = "opentelemetry-sdk is not installed", "pip install 'headrace[otel]'"
            raise ConfigError(what, where="otel", fix=fix)
        for signal in ("traces", "metrics"):
            try:
                read_exporter(signal)
            except ValueError as error:
                raise ConfigError(str(error), where="otel", fix="correct the environment variable") from None

    def warnings(self) -> Iterable[str]:
        if (name := find_other_protocol()) is not None:
            yield f"{name} is ignored: the protocol is http/protobuf, by default on port 4318"

    def open(self, run: ObservedRun) -> None:
        from headrace_otel.exporters import open_providers

        self._warn = run.warn
        self._observe_with(open_providers(run.pipeline, run.warn), run)

    def _observe_with(self, providers: Providers, run: ObservedRun) -> None:
        from headrace_otel.run_metrics import RunMetrics
        from headrace_otel.run_traces import RunTraces

        self._providers = providers
        self._traces: RunTraces = RunTraces(providers.traces.get_tracer(_SCOPE), run.pipeline)
        self._metrics: RunMetrics = RunMetrics(providers.metrics.get_meter(_SCOPE), run, self.config.max_tables)

    def observe(self, event: RunEvent) -> None:
        from headrace_otel.exporters import HIDDEN

        with HIDDEN:
            self._metrics.add(event)
            self._traces.add(event)

    def close(self) -> None:
        if not self._providers.shutdown(_END_SECONDS):
            self._warn("the collector does not accept the last data in time")
