"""Iceberg tables in a REST catalog: Iceberg's own server, behind a proxy that issues tokens and breaks responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.support.rest_proxy import HTML, TOKENS, Fault, RestProxy, make_error

from headrace import ConfigError, HeadraceError, RetriableError
from headrace.errors import LoginError
from headrace.sdk.sink import Mode
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.iceberg import IcebergSink
from headrace_stack import IcebergRest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

PEOPLE = "id int, name string"
ARP, HOECH = {"id": 1, "name": "Arp"}, {"id": 2, "name": "Höch"}


@pytest.fixture(scope="module")
def proxy(iceberg_rest: IcebergRest) -> Iterator[RestProxy]:
    with RestProxy(iceberg_rest) as server:
        yield server


OpenTarget = Callable[..., Target]


@pytest.fixture
def open_target(spark: SparkSession, proxy: RestProxy) -> OpenTarget:
    """Return a factory of tables in a new catalog of the proxy; ``properties`` override the proxy's."""

    def make(server: RestProxy = proxy, **properties: str) -> Target:
        # A session keeps the first definition of a catalog, so each catalog has a new name.
        block = {"catalog": f"rest_{uuid4().hex[:8]}", "catalog.properties": {**server.properties, **properties}}
        sink = IcebergSink(block)
        for key, value in sink.session_conf().items():
            spark.conf.set(key, value)
        return Target(sink, Sessions(spark).of("one"))

    return make


@pytest.fixture(autouse=True)
def repaired(proxy: RestProxy) -> None:
    proxy.fail(Fault(None), times=0)
    proxy.token_seconds, proxy.secret = 3600, "secret"


@pytest.mark.nightly
def test_rows_columns_and_maintenance(open_target: OpenTarget) -> None:
    target = open_target()
    target.write(PEOPLE, put(1, 1, "Arp"), put(2, 2, "Höch"))
    target.write(f"{PEOPLE}, born int", put(3, 1, "Hans Arp", 1886), remove(4, 2, "Höch", None))
    assert target.write_again(f"{PEOPLE}, born int", put(3, 1, "Hans Arp", 1886), remove(4, 2, "Höch", None)).skipped
    assert target.rows() == [{"id": 1, "name": "Hans Arp", "born": 1886}]
    size = target.sink.measure_table(target.session, target.table)
    assert size is not None
    assert size.versions == 2


@pytest.mark.parametrize("mode", ["upsert", "append"])
@pytest.mark.parametrize(
    "cut", [Fault(None, is_after_commit=True), Fault(503, b"", is_after_commit=True)], ids=["cut", "503"]
)
def test_commit_whose_answer_is_lost_is_not_repeated(
    open_target: OpenTarget, proxy: RestProxy, mode: Mode, cut: Fault
) -> None:
    target = open_target(**{"rest.client.max-retries": "1"})
    target.write(PEOPLE, put(1, 1, "Arp"), mode=mode)
    batch = target.frame(PEOPLE, put(2, 2, "Höch"))
    # After a status of a server error, Iceberg itself looks up the outcome.
    proxy.fail(cut, times=1, methods="POST", path="/tables/")
    error = target.refusal(lambda: target.apply(batch, mode))
    assert proxy.faults_sent == 1
    assert error is None if cut.status else isinstance(error, RetriableError), error
    commits = proxy.count_commits()
    if error is not None:
        assert target.apply(batch, mode).skipped
    assert proxy.count_commits() == commits
    # The files of the commit exist: a scan reads them.
    assert target.rows() == [ARP, HOECH]


def test_table_whose_creation_is_not_confirmed_is_found(open_target: OpenTarget, proxy: RestProxy) -> None:
    target = open_target(**{"rest.client.max-retries": "1"})
    batch = target.frame(PEOPLE, put(1, 1, "Arp"))
    proxy.fail(Fault(None, is_after_commit=True), times=1, methods="POST", path=f"/tables/{target.name.split('.')[1]}")
    error = target.refusal(lambda: target.apply(batch))
    assert isinstance(error, RetriableError), proxy.asked[-6:]
    assert target.apply(batch).skipped
    assert target.rows() == [ARP]


def test_tokens_are_renewed_while_a_session_lives(open_target: OpenTarget, proxy: RestProxy) -> None:
    proxy.token_seconds = 2
    target = open_target()
    target.write(PEOPLE, put(1, 1, "Arp"))
    issued, end = proxy.tokens_issued, time.monotonic() + 8
    number = 1
    while time.monotonic() < end:
        number += 1
        target.write(PEOPLE, put(number, 1, f"Arp {number}"))
    assert target.rows() == [{"id": 1, "name": f"Arp {number}"}]
    assert proxy.tokens_issued - issued >= 3


def test_revoked_token_is_replaced(open_target: OpenTarget, proxy: RestProxy) -> None:
    """Iceberg keeps a rejected token until the session ends."""
    target = open_target()
    target.write(PEOPLE, put(1, 1, "Arp"))
    proxy.revoke_tokens()
    target.write(PEOPLE, put(2, 2, "Höch"))
    proxy.revoke_tokens()
    assert target.sink.measure_table(target.session, target.table) is not None
    expired = Fault(419, make_error(419, "AuthenticationTimeoutException", "the token expired"))
    proxy.fail(expired, times=1, methods="GET", path="/tables/")
    assert target.rows() == [ARP, HOECH]


def test_page_of_a_gateway_is_no_answer_about_a_table(open_target: OpenTarget, proxy: RestProxy) -> None:
    target = open_target(**{"rest.client.max-retries": "1"})
    target.write(PEOPLE, put(1, 1, "Arp"))
    proxy.fail(Fault(404, HTML), times=1, methods="GET", path="/tables/")
    assert target.rows() == [ARP]
    assert proxy.faults_sent == 1
    proxy.fail(Fault(404, HTML), times=99, methods="GET", path="/namespaces")
    assert isinstance(target.refusal(target.rows), RetriableError)


def test_rotated_secret_reaches_the_session(open_target: OpenTarget, proxy: RestProxy) -> None:
    target = open_target()
    target.write(PEOPLE, put(1, 1, "Arp"))
    proxy.secret = "rotated"
    proxy.revoke_tokens()
    assert isinstance(target.refusal(lambda: target.write(PEOPLE, put(2, 2, "Höch"))), LoginError)
    # The engine builds the sink again after a LoginError, with the current values of the file's references.
    block = {"catalog": target.sink.config.catalog, "catalog.properties": proxy.properties}
    target.sink = IcebergSink(block)
    # Maintenance and reads have sessions of their own, and find the current secret as well.
    assert target.sink.measure_table(target.session, target.table) is not None
    target.write(PEOPLE, put(2, 2, "Höch"))
    assert target.rows() == [ARP, HOECH]


@pytest.mark.parametrize(
    ("fault", "kind", "expected"),
    [
        (
            Fault(403, make_error(403, "ForbiddenException", "Principal 'headrace' lacks TABLE_WRITE_DATA")),
            ConfigError,
            "permission denied by the catalog: Forbidden: Principal 'headrace' lacks TABLE_WRITE_DATA",
        ),
        (
            Fault(409, make_error(409, "CommitFailedException", "Requirement failed: branch main has changed")),
            RetriableError,
            "another writer committed at the same time: ",
        ),
        (
            Fault(429, make_error(429, "TooManyRequestsException", "Too many requests")),
            RetriableError,
            "the catalog is busy or not available: ",
        ),
        (
            Fault(503, make_error(503, "SlowDownException", "try later")),
            RetriableError,
            "the answer to a commit was lost, so the catalog may have the commit: ",
        ),
        (
            Fault(404, make_error(404, "NoSuchTableException", "Table does not exist: kit.people")),
            RetriableError,
            "the catalog no longer has the table: Table does not exist: kit.people",
        ),
        (Fault(200, HTML), ConfigError, "the server is not an Iceberg REST catalog: "),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fault) else "",
)
def test_refused_commits(
    open_target: OpenTarget, proxy: RestProxy, fault: Fault, kind: type[HeadraceError], expected: str
) -> None:
    target = open_target(**{"rest.client.max-retries": "1", "cache-enabled": "false"})
    target.write(PEOPLE, put(1, 1, "Arp"))
    proxy.fail(fault, times=20, methods="POST", path="/tables/")
    error = target.refusal(lambda: target.write(PEOPLE, put(2, 2, "Höch")))
    assert isinstance(error, kind), error
    assert not isinstance(error, LoginError)
    assert expected in str(error)
    proxy.fail(fault, times=0)
    target.write(PEOPLE, put(2, 2, "Höch"))
    assert target.rows() == [ARP, HOECH]


@pytest.mark.parametrize(
    ("properties", "fault", "kind", "expected"),
    [
        ({"credential": "headrace:wrong"}, None, LoginError, "authentication failed: the catalog rejected the login: "),
        ({"token": "forged", "credential": ""}, None, LoginError, "authentication failed: "),
        ({}, Fault(200, HTML), ConfigError, "the server is not an Iceberg REST catalog: "),
        ({}, Fault(302, HTML), HeadraceError, "catalog"),
        ({}, Fault(503, HTML), RetriableError, ""),
        (
            {},
            Fault(400, b'{"error": "invalid_scope", "error_description": "unknown scope"}'),
            ConfigError,
            "the catalog rejects the request: Malformed request: invalid_scope: unknown scope",
        ),
    ],
    ids=["secret", "token", "html", "redirect", "html-503", "scope"],
)
def test_refused_logins(
    open_target: OpenTarget,
    proxy: RestProxy,
    properties: dict[str, str],
    fault: Fault | None,
    kind: type[HeadraceError],
    expected: str,
) -> None:
    if fault is not None:
        proxy.fail(fault, times=20, path=TOKENS)
    target = open_target(**{"rest.client.max-retries": "1", **properties})
    with pytest.raises(kind) as caught:
        target.sink.check(target.session)
    assert expected in str(caught.value)
    assert "secret" not in str(caught.value).replace("wrong secret", "")


def test_properties_may_be_booleans_and_numbers() -> None:
    properties = {"type": "rest", "rest.sigv4-enabled": True, "rest.client.max-retries": 0}
    sink = IcebergSink({"catalog": "lake", "catalog.properties": properties})
    assert [type(part).__name__ for part in sink.parts()] == ["AwsBundle"]
    assert sink.session_conf()["spark.sql.catalog.lake.rest.client.max-retries"] == "0"


def test_files_of_an_unconfirmed_commit_stay(
    open_target: OpenTarget, proxy: RestProxy, iceberg_rest: IcebergRest
) -> None:
    target = open_target(**{"rest.client.max-retries": "1"})
    target.write(PEOPLE, put(1, 1, "Arp"), mode="append")
    folder = Path(iceberg_rest.warehouse.removeprefix("file://"), *target.name.split("."), "data")
    before = {file.name for file in folder.rglob("*.parquet")}
    proxy.fail(Fault(503), times=20, methods="POST", path="/tables/")
    error = target.refusal(lambda: target.write(PEOPLE, put(2, 2, "Höch"), mode="append"))
    assert isinstance(error, RetriableError)
    assert {file.name for file in folder.rglob("*.parquet")} > before
