"""A pytest plugin, loaded by ``pytest_plugins = ["headrace_stack.fixtures"]``: one server of each for all tests.

A server starts when the first test asks for it. A test that fails shows what the servers wrote into their logs while it
ran.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import pytest

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
#: Server → the size of its log when the test began.
_LOG_SIZES = pytest.StashKey[dict[Server, int]]()


@pytest.fixture(scope="session")
def headrace_connectors() -> Sequence[str]:
    """Override it: which of Debezium's connectors ``connect`` has (``headrace_stack.servers.kafka_connect.CONNECTORS``)."""
    return CONNECTORS


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Kafka]:
    """A broker without SASL."""
    with _start(Kafka(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def msk(pytestconfig: pytest.Config) -> Iterator[Msk]:
    """A broker that verifies what is signed with keys of ``msk.issue_key()``."""
    with _start(Msk(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def connect(kafka: Kafka, headrace_connectors: Sequence[str], pytestconfig: pytest.Config) -> Iterator[Connect]:
    """Kafka Connect on the fixture ``kafka``."""
    with _start(Connect(kafka, headrace_connectors), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[Postgres]:
    """A cluster that allows logical decoding."""
    with _start(Postgres(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> Iterator[MariaDb]:
    """A server with a binary log of rows."""
    with _start(MariaDb(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def mysql(pytestconfig: pytest.Config) -> Iterator[MariaDb]:
    """``MariaDb(as_mysql=True)``, for Debezium's MySQL connector."""
    with _start(MariaDb(as_mysql=True), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def sqlserver(pytestconfig: pytest.Config) -> Iterator[SqlServer]:
    """A stand-in for SQL Server, for Debezium's SQL Server connector; it is no SQL Server."""
    with _start(SqlServer(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def kinesis(pytestconfig: pytest.Config) -> Iterator[Kinesis]:
    """A stand-in for Kinesis, without streams."""
    with _start(Kinesis(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def s3(pytestconfig: pytest.Config) -> Iterator[S3]:
    """An S3 without buckets, which verifies signatures."""
    with _start(S3(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def registry(pytestconfig: pytest.Config) -> Iterator[SchemaRegistry]:
    """An empty registry of schemas."""
    with _start(SchemaRegistry(), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def metastore(pytestconfig: pytest.Config) -> Iterator[Metastore]:
    """An empty Hive metastore."""
    with _start(Metastore(), pytestconfig) as server:
        yield server


@contextmanager
def _start(server: _S, config: pytest.Config) -> Iterator[_S]:
    capture = config.pluginmanager.getplugin("capturemanager")
    # Who waits for 140 MB sees why.
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        server.fetch()
    with server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember where the logs end."""
    item.stash[_LOG_SIZES] = {server: server.log.stat().st_size for server in Server.running}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what came into the logs since."""
    report = yield
    if report.failed:
        before = item.stash.get(_LOG_SIZES, {})
        for server in Server.running:
            if text := server.tail(begin=before.get(server, 0)):
                report.sections.append((f"log of {server.name}", text))
    return report
