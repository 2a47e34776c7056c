"""Traces and metrics of a run by OpenTelemetry: ``otel:``."""

from headrace.sdk.exports import lazy_plugins
from headrace.sdk.hookspecs import hookimpl

_OBSERVERS = {"otel": "headrace_otel.otel_observer:Otel"}

__getattr__ = lazy_plugins(__name__, _OBSERVERS)


@hookimpl
def headrace_observers() -> dict[str, str]:
    """Return the observers of runs by the key of the pipeline file that has their options."""
    return _OBSERVERS
