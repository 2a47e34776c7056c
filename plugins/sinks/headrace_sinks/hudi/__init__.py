"""Hudi tables."""

from headrace_sinks.hudi.sink import HudiSink

__all__ = ["HudiSink"]
