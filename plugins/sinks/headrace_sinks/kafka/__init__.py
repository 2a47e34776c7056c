"""Sink ``kafka``: changes as records of topics."""

from headrace_sinks.kafka.kafka_sink import KafkaSink as KafkaSink
