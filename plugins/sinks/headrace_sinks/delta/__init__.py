"""Sink for Delta tables."""

from headrace_sinks.delta.delta_sink import DeltaSink

__all__ = ["DeltaSink"]
