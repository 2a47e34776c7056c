"""Protobuf, which is not supported. The name is registered to explain why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ProtobufFormat(Format):
    """Format that is rejected before a pipeline starts."""

    name = "protobuf"
    api_version = 1

    def check(self, spark: SparkSession | None = None) -> None:
        raise ConfigError(
            "Protobuf is not supported: Spark's from_protobuf reads one message type from a file and uses no schema "
            "registry, and Debezium creates a type for each table and each ALTER",
            where="format protobuf",
            fix="use Avro or JSON in the connector",
        )
