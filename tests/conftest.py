"""One Spark session per test process, with the jars of every built-in plugin that works on this Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.support.rooms import ByRoom, Times
from tests.support.spark_conf import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer


# A loaded machine is slow, and no test is about that.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(), "headrace-times")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByRoom | None:
    return ByRoom(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What has not begun by a machine's deadline is left out, and the summary says so: a part is better than no answer."""
    deadline = os.environ.get("HEADRACE_TEST_DEADLINE")
    if deadline and time.time() > float(deadline):
        pytest.skip("the machine is too slow: the time for tests is over (HEADRACE_TEST_DEADLINE)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a kit asks of every plugin has no Spark in it. Files with long tests come first: one that begins when all others are
    done keeps everybody waiting.
    """
    for item in items:
        if isinstance(item, pytest.Function) and item.function.__qualname__.startswith("PluginConformance."):
            item.add_marker(pytest.mark.one_spark)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from headrace.runtime.session.session_builder import build_session, spark_line, spark_version
    from headrace.sdk.plugin import Plugin
    from headrace_aws.s3a.s3a_file_system import S3A
    from headrace_sinks.files import FilesSink
    from headrace_sinks.hudi import HudiSink
    from headrace_sinks.iceberg import IcebergSink
    from headrace_sinks.iceberg.aws_bundle import AwsBundle
    from headrace_sources.formats.avro import AvroFormat
    from headrace_sources.transports.kafka import KafkaSource

    line = spark_line(spark_version())
    kafka = KafkaSource(
        {"bootstrap.servers": "localhost", "subscribe": "none", "auth": {"msk-iam": {"region": "eu-west-1"}}}
    )
    plugins: list[Plugin] = [
        kafka,
        AvroFormat(),
        IcebergSink(warehouse="/tmp"),
        AwsBundle(),
        FilesSink(path="/tmp"),
        S3A(),
    ]
    if line not in HudiSink.refuses:
        plugins.append(HudiSink(path="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        # It would leave the classes of thousands of plans, which no other start has.
        patch.delenv("HEADRACE_CLASS_ARCHIVES", raising=False)
        session = build_session(
            plugins, {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}
        )
    # Interpreted where the rows are few and the plans many. Compiled are those of all types (test_live_types.py), of every
    # program that a test starts, and all on Spark 4.0.
    if line == "3.5":
        for key, value in INTERPRETED.items():
            session.conf.set(key, value)
    yield session
    session.stop()
