"""The block ``otel:`` of the pipeline file, and the environment variables that it reads."""

from __future__ import annotations

import os

from pydantic import Field

from headrace.sdk import Config

#: Values of OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER.
EXPORTERS = ("otlp", "console", "none")
_PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)
_HTTP = "http/protobuf"


class OtelConfig(Config):
    """Traces and metrics of a run, by OTLP over HTTP. OpenTelemetry's variables ``OTEL_*`` name the collector."""

    max_tables: int = Field(default=500, alias="max.tables", ge=1)
    """Number of tables and sinks with metrics of their own. The counts of further ones are added up as ``_other``."""


def read_exporter(signal: str) -> str:
    """Return the exporter of ``traces`` or ``metrics``. ValueError if headrace does not have it."""
    name = f"OTEL_{signal.upper()}_EXPORTER"
    value = (os.environ.get(name) or "otlp").strip().lower()
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "none"
    if value not in EXPORTERS:
        raise ValueError(f"{name} is not one of {', '.join(EXPORTERS)}")
    return value


def find_other_protocol() -> str | None:
    """Return the variable that names a protocol other than OTLP over HTTP; None without one."""
    return next((name for name in _PROTOCOLS if os.environ.get(name, _HTTP) != _HTTP), None)
