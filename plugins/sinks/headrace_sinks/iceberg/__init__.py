"""Iceberg tables."""

from headrace_sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
