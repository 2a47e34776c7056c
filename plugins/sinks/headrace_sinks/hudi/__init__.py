"""Sink for Hudi tables."""

from headrace_sinks.hudi.hudi_sink import HudiSink

__all__ = ["HudiSink"]
