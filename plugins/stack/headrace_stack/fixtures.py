"""Pytest plugin, loaded by ``pytest_plugins = ["headrace_stack.fixtures"]``: one server of each kind per session.

A server starts when the first test requests it. A failed test shows the lines that the servers logged during the test.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import pytest

from headrace_stack.iceberg_rest import IcebergRest
from headrace_stack.kinesis import Kinesis
from headrace_stack.msk import Msk
from headrace_stack.s3 import S3
from headrace_stack.servers.apicurio import SchemaRegistry
from headrace_stack.servers.kafka import Kafka
from headrace_stack.servers.kafka_connect import CONNECTORS, Connect
from headrace_stack.servers.mariadb import MariaDb
from headrace_stack.servers.metastore import Metastore
from headrace_stack.servers.postgres import Postgres
from headrace_stack.servers.server import Server
from headrace_stack.sqlserver import SqlServer

_S = TypeVar("_S", bound=Server)
#: Server → size of its log at the start of the test.
_LOG_SIZES = pytest.StashKey[dict[Server, int]]()


@pytest.fixture(scope="session")
def headrace_connectors() -> Sequence[str]:
    """Return the Debezium connectors of ``connect``; override it to select some of ``kafka_connect.CONNECTORS``."""
    return CONNECTORS


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Kafka]:
    """Provide a broker without SASL."""
    with _start(Kafka(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def msk(pytestconfig: pytest.Config) -> Iterator[Msk]:
    """Provide a broker that verifies signatures of keys from ``msk.issue_key()``."""
    with _start(Msk(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def connect(kafka: Kafka, headrace_connectors: Sequence[str], pytestconfig: pytest.Config) -> Iterator[Connect]:
    """Provide Kafka Connect on the fixture ``kafka``."""
    with _start(Connect(kafka, headrace_connectors), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[Postgres]:
    """Provide a PostgreSQL cluster with logical decoding."""
    with _start(Postgres(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> Iterator[MariaDb]:
    """Provide a MariaDB server with a row-based binary log."""
    with _start(MariaDb(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def mysql(pytestconfig: pytest.Config) -> Iterator[MariaDb]:
    """Provide ``MariaDb(as_mysql=True)`` for Debezium's MySQL connector."""
    with _start(MariaDb(as_mysql=True), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def sqlserver(pytestconfig: pytest.Config) -> Iterator[SqlServer]:
    """Provide a stand-in for SQL Server for Debezium's connector; it is not SQL Server."""
    with _start(SqlServer(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def kinesis(pytestconfig: pytest.Config) -> Iterator[Kinesis]:
    """Provide a stand-in for Kinesis without streams."""
    with _start(Kinesis(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def s3(pytestconfig: pytest.Config) -> Iterator[S3]:
    """Provide an S3 server without buckets, which verifies signatures."""
    with _start(S3(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def registry(pytestconfig: pytest.Config) -> Iterator[SchemaRegistry]:
    """Provide an empty schema registry."""
    with _start(SchemaRegistry(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def metastore(pytestconfig: pytest.Config) -> Iterator[Metastore]:
    """Provide an empty Hive metastore."""
    with _start(Metastore(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def iceberg_rest(pytestconfig: pytest.Config) -> Iterator[IcebergRest]:
    """Provide an empty Iceberg REST catalog."""
    with _start(IcebergRest(), pytestconfig) as server:
        yield server


@contextmanager
def _start(server: _S, config: pytest.Config) -> Iterator[_S]:
    capture = config.pluginmanager.getplugin("capturemanager")
    # The download of 140 MB must be visible.
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        server.fetch()
    with server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the sizes of the logs."""
    item.stash[_LOG_SIZES] = {server: server.log.stat().st_size for server in Server.running}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the new lines of the logs to the report."""
    report = yield
    if report.failed:
        before = item.stash.get(_LOG_SIZES, {})
        for server in Server.running:
            if text := server.tail(begin=before.get(server, 0)):
                report.sections.append((f"log of {server.name}", text))
    return report
