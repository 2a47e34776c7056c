"""One Spark session per test process, with the jars of every built-in plugin that works on this Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A loaded machine is slow, and no test is about that.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first: one that begins when all others are done keeps everybody waiting."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from headrace.runtime import session as sessions
    from headrace.sdk.plugin import Plugin
    from headrace_sinks.files import FilesSink
    from headrace_sinks.hudi import HudiSink
    from headrace_sinks.iceberg import IcebergSink
    from headrace_sources.formats.avro import AvroFormat
    from headrace_sources.transports.kafka import KafkaSource

    line = sessions.line_of(sessions.spark_version())
    kafka = KafkaSource({"bootstrap.servers": "localhost", "subscribe": "none"})
    plugins: list[Plugin] = [kafka, AvroFormat(), IcebergSink(warehouse="/tmp"), FilesSink(path="/tmp")]
    if line not in HudiSink.refuses:
        plugins.append(HudiSink(path="/tmp"))
    session = sessions.build(
        plugins, {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}
    )
    yield session
    session.stop()
