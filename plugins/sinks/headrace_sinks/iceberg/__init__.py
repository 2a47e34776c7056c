"""Sink for Iceberg tables."""

from headrace_sinks.iceberg.iceberg_sink import IcebergSink

__all__ = ["IcebergSink"]
