"""Iceberg tables in the Glue catalog and S3 on moto; a local server returns the errors that moto lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.glue import Glue, Refusing, set_aws_keys, set_jvm_properties

from headrace import ConfigError, HeadraceError, RetriableError
from headrace.engine.plan.retry import retry
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import find_locked, read_locks
from headrace.runtime.session.session_builder import with_parts
from headrace.sdk.sink import Mode
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"


@pytest.fixture(scope="module")
def glue() -> Iterator[Glue]:
    with Glue() as server:
        where = {"LocationConstraint": server.region}
        server.client("s3").create_bucket(Bucket="lake", CreateBucketConfiguration=where)
        yield server


@pytest.fixture
def keys(spark: SparkSession) -> Iterator[None]:
    with set_aws_keys(spark):
        yield


@dataclass(frozen=True)
class Catalog:
    """Catalog options and sessions with the catalog, as the engine passes them to sinks."""

    sink: IcebergSink
    sessions: Sessions

    def target(self, session: str = "one", **table: str) -> Target:
        return Target(self.sink, self.sessions.of(session), **table)  # type: ignore[arg-type]


OpenCatalog = Callable[..., Catalog]


@pytest.fixture
def open_catalog(spark: SparkSession, glue: Glue, keys: None) -> OpenCatalog:
    """Return a factory of catalogs; ``properties`` override the defaults, and None removes one."""

    def make(endpoint: str = glue.endpoint_url, **properties: str | None) -> Catalog:
        defaults = {
            "type": "glue",
            "warehouse": "s3://lake/silver",
            "client.region": glue.region,
            "glue.endpoint": endpoint,
            "s3.endpoint": glue.endpoint_url,
            "s3.path-style-access": "true",
            **properties,
        }
        properties_set = {key: value for key, value in defaults.items() if value is not None}
        # A session keeps the first definition of a catalog, so each catalog has a new name.
        sink = IcebergSink({"catalog": f"glue_{uuid4().hex[:8]}", "catalog.properties": properties_set})
        for key, value in sink.session_conf().items():
            spark.conf.set(key, value)
        return Catalog(sink, Sessions(spark))

    return make


def test_upserts_new_columns_and_repeated_batch(open_catalog: OpenCatalog, glue: Glue) -> None:
    catalog = open_catalog()
    target = catalog.target()
    target.write(PEOPLE, put(1, 1, "Arp"), put(2, 2, "Höch"))
    target.write(PEOPLE, put(3, 1, "Hans Arp"), remove(4, 2, "Höch"), put(5, 3, "Ernst"))
    target.write(f"{PEOPLE}, born int", put(6, 3, "Max Ernst", 1891))
    assert target.write_again(f"{PEOPLE}, born int", put(6, 3, "Max Ernst", 1891)).skipped
    rows = [{"id": 1, "name": "Hans Arp", "born": None}, {"id": 3, "name": "Max Ernst", "born": 1891}]
    assert target.rows() == rows
    # The table as Athena reads it.
    database, name = target.name.split(".")
    table = glue.client().get_table(DatabaseName=database, Name=name)["Table"]
    assert table["Parameters"]["table_type"] == "ICEBERG"
    assert {"id", "name", "born"} <= {column["Name"] for column in table["StorageDescriptor"]["Columns"]}
    assert table["Parameters"]["metadata_location"].startswith("s3://lake/silver/")
    # A session that has never written the table.
    assert catalog.target("other", name=target.name).rows() == rows


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_concurrent_writers_lose_no_rows(
    open_catalog: OpenCatalog, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.plan.retry.FIRST_PAUSE_SECONDS", 0.1)
    catalog = open_catalog()
    first = catalog.target()
    first.write(PEOPLE, put(1, 0, "first"))
    start = threading.Barrier(2)

    def write(name: str, first_id: int) -> None:
        target = catalog.target(name, name=first.name)
        for number in range(first_id, first_id + 3):
            frame = target.frame(PEOPLE, put(number, number, name))
            start.wait()
            retry(partial(target.apply, frame, mode), partial(explain, catalog.sink))

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(write, "left", 10), pool.submit(write, "right", 20)]:
            done.result()
    # A session caches tables for a while.
    found = catalog.target("reader", name=first.name).rows()
    assert [row["id"] for row in found] == [0, 10, 11, 12, 20, 21, 22]


def explain(sink: IcebergSink, error: Exception) -> HeadraceError:
    found = error if isinstance(error, HeadraceError) else sink.explain(error)
    assert found, error
    return found


def test_catalog_adds_its_jar() -> None:
    def jars(**properties: str) -> list[str]:
        sink = IcebergSink({"catalog": "lake", "catalog.properties": properties})
        plugins = with_parts([sink])
        for line in ("3.5", "4.0", "4.1"):
            assert find_locked(list_coordinates(plugins, line), read_locks(plugins)), line
        return [name.split(":")[1] for name in list_coordinates(plugins, "3.5")][1:]

    bundle = ["iceberg-aws-bundle"]
    assert jars(type="glue") == bundle
    assert jars(**{"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}) == bundle
    assert jars(type="hive", **{"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}) == bundle
    assert jars(type="rest", **{"rest.sigv4-enabled": "true"}) == bundle
    assert jars(type="rest", **{"rest.auth.type": "sigv4"}) == bundle
    assert jars(type="hive") == jars(type="rest") == jars() == []


def error_of(catalog: Catalog, name: str = "kit.people") -> HeadraceError:
    target = catalog.target(name=name)
    error = target.refusal(lambda: target.write(PEOPLE, put(1, 1, "a")))
    assert error
    return error


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (
            "AccessDeniedException",
            "User: arn:aws:iam::1:user/a is not authorized to perform: glue:GetTable on resource: kit",
            "access denied: User: arn:aws:iam::1:user/a is not authorized to perform: glue:GetTable on resource: kit",
        ),
        (
            "ExpiredTokenException",
            "The security token included in the request is expired",
            "the session token has expired\n  fix: log in again",
        ),
        (
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
            "AWS rejected the credentials: The security token included in the request is invalid.",
        ),
        (
            "InvalidSignatureException",
            "The request signature we calculated does not match the signature you provided.",
            "check the access key, its secret and its session token",
        ),
    ],
)
def test_errors_state_a_fix(
    open_catalog: OpenCatalog, refusal_server: Refusing, code: str, message: str, expected: str
) -> None:
    refusal_server.refuse(code, message)
    catalog = open_catalog(refusal_server.endpoint_url)
    error = error_of(catalog)
    assert isinstance(error, ConfigError)
    assert expected in str(error)
    # The same error from `headrace check`.
    with pytest.raises(ConfigError) as caught:
        catalog.sink.check(catalog.sessions.of("one"))
    assert str(caught.value) == str(error)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_throttling_is_retriable(open_catalog: OpenCatalog, refusal_server: Refusing, spark: SparkSession) -> None:
    refusal_server.refuse("ThrottlingException", "Rate exceeded")
    # AWS's clients increase the pause with each attempt.
    with set_jvm_properties(spark, {"aws.maxAttempts": "1"}):
        error = error_of(open_catalog(refusal_server.endpoint_url))
    assert isinstance(error, RetriableError)
    assert "AWS throttles the requests: Rate exceeded" in str(error)


@pytest.mark.one_spark
def test_missing_settings(open_catalog: OpenCatalog, spark: SparkSession) -> None:
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    region = system.clearProperty("aws.region")  # set by MSK's authentication
    try:
        nowhere = open_catalog(**{"client.region": None})
        with pytest.raises(
            ConfigError, match=r"no AWS region is configured\n  fix: set AWS_REGION, or `client.region`"
        ):
            nowhere.sink.check(nowhere.sessions.of("one"))
    finally:
        if region:
            system.setProperty("aws.region", region)
    assert "new tables have no location" in str(error_of(open_catalog(warehouse=None), "nowhere.people"))
    assert "no such bucket" in str(error_of(open_catalog(warehouse="s3://none/silver"), "away.people"))
    system.clearProperty("aws.accessKeyId")
    assert "no AWS credentials were found\n  fix: give driver and executors" in str(error_of(open_catalog()))


@pytest.mark.one_spark
@pytest.mark.parametrize("name", ["shop.public.orders", "orders", "shop.Orders", "shop.or-ders"])
def test_names_that_glue_does_not_allow(open_catalog: OpenCatalog, name: str) -> None:
    error = error_of(open_catalog(), name)
    assert isinstance(error, ConfigError)
    assert "the catalog does not allow this table name: " in str(error)
    assert "in Glue a table is `database.table`" in str(error)
