"""Shared fixtures: one Spark session per test process, with the jars of all plugins that support its Spark version."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.support.rooms import FileAndGroupScheduling, Times, add_groups, sort_longest_first
from tests.support.spark_conf import INTERPRETED
from tests.support.thread_dump import dump_threads_after_timeout
from tests.support.tiers import mark_nightly_tests

from headrace_stack.servers.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer


# Fixtures that start one server of each kind per test process.
pytest_plugins = ["headrace_stack.fixtures"]

# Programs of tests are killed, or run once with the jars of their environment.
os.environ.setdefault("HEADRACE_CLASS_ARCHIVES", "off")

# The tests must also pass on a slow machine.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("new"), derandomize=True, database=None)


def pytest_configure(config: pytest.Config) -> None:
    # `make test` and `make quick` have the same result for the same commit. All other runs draw new examples.
    settings.load_profile("repeatable" if "not nightly" in config.option.markexpr else "new")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(), "headrace-times")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileAndGroupScheduling | None:
    return FileAndGroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Group tests before xdist reads the groups, and sort the selected tests after pytest has deselected the others."""
    for item in items:
        # The tests of this class run no Spark, although kits of other plugins inherit them.
        if isinstance(item, pytest.Function) and item.function.__qualname__.startswith("PluginConformance."):
            item.add_marker(pytest.mark.one_spark)
        mark_nightly_tests(item)
    add_groups(items)
    yield
    sort_longest_first(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    dump_threads_after_timeout(call)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Return a broker for all tests of this process, with SASL and records of up to 60 MB."""
    size = str(60 * 1024 * 1024)
    with Kafka(sasl=True, config={"message.max.bytes": size, "replica.fetch.max.bytes": size}) as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with start_session() as session:
        yield session


@contextmanager
def start_session() -> Iterator[SparkSession]:
    """Return a session with the jars of all plugins; scripts outside of a test use it too."""
    from headrace.runtime.session.session_builder import build_session
    from headrace.runtime.session.spark_support import list_lines, spark_line, spark_version
    from headrace.sdk.plugin import Plugin
    from headrace_aws.s3a.s3a_file_system import S3A
    from headrace_sinks.delta import DeltaSink
    from headrace_sinks.files import FilesSink
    from headrace_sinks.hudi import HudiSink
    from headrace_sinks.iceberg import IcebergSink
    from headrace_sinks.iceberg.aws_bundle import AwsBundle
    from headrace_sources.formats.avro import AvroFormat
    from headrace_sources.jdbc.jdbc_source import JdbcSource
    from headrace_sources.transports.kafka import KafkaSource

    line = spark_line(spark_version())
    kafka = KafkaSource(
        {"bootstrap.servers": "localhost", "subscribe": "none", "auth": {"msk-iam": {"region": "eu-west-1"}}}
    )
    plugins: list[Plugin] = [
        kafka,
        AvroFormat(),
        IcebergSink(warehouse="/tmp"),
        DeltaSink(path="/tmp"),
        AwsBundle(),
        FilesSink(path="/tmp"),
        S3A(),
        *(
            JdbcSource({"connection.url": f"jdbc:{kind}://db/shop", "mode": "bulk"})
            for kind in ("postgresql", "mariadb")
        ),
    ]
    if line in list_lines(HudiSink):
        plugins.append(HudiSink(path="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        # The archive would contain the classes of thousands of plans, which no other process loads.
        patch.setenv("HEADRACE_CLASS_ARCHIVES", "off")
        session = build_session(
            plugins, {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}
        )
    # Interpreted plans are faster for many plans with few rows. Compiled plans run in test_live_types.py (all types),
    # in most programs that a test starts, and in all tests on Spark 4.1.
    if line == "3.5":
        for key, value in INTERPRETED.items():
            session.conf.set(key, value)
    yield session
    session.stop()
