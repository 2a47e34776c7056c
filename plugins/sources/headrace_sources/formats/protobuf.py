"""Protobuf: known by name, so that a pipeline that asks for it is told why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ProtobufFormat(Format):
    """``value: {protobuf: {}}`` is refused."""

    name = "protobuf"
    api_version = 1

    def check(self, spark: SparkSession | None = None) -> None:
        raise ConfigError(
            "Protobuf is not read: Spark's from_protobuf takes one message type from a file and asks no registry, "
            "and Debezium makes a type for each table and each ALTER",
            where="format protobuf",
            fix="let the connector write Avro or JSON",
        )
