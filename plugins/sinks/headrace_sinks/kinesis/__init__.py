"""Sink ``kinesis``: changes as records of streams."""

from headrace_sinks.kinesis.kinesis_sink import KinesisSink as KinesisSink
