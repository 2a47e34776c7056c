"""Glue catalog on moto: concurrent writers and unusual names.

moto denies no request and has no Lake Formation. A local server returns the errors that AWS documents.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.catalogs import POINTS, FakeStore, overtake
from tests.support.glue import Glue, Refusing, column_types

from headrace import ConfigError, HeadraceError, RetriableError
from headrace_sinks import GlueCatalog
from headrace_sinks.catalogs.glue.glue_client import GlueClient

pytestmark = pytest.mark.usefixtures("aws_credentials")

LOCATION = "s3a://lake/t"


def spell_as_aws(store: FakeStore) -> dict[tuple[str, ...], str]:
    return {values: place.replace("s3a:", "s3:") for values, place in store.partitions.items()}


def test_glue_requests_use_the_role(glue: Glue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", glue.endpoint_url)
    role = {"role.arn": "arn:aws:iam::123456789012:role/keeper", "endpoint": glue.endpoint_url}
    client = GlueCatalog(role)._make_client()._client
    logins: list[str] = []
    client.meta.events.register(
        "before-send.glue", lambda request, **_: logins.append(str(request.headers["Authorization"]))
    )
    client.get_databases()
    assert "Credential=ASIA" in logins[0]


@pytest.mark.parametrize(
    ("name", "database", "expected_name"),
    [
        ("shop.orders", None, ("shop", "orders")),
        ("Shop.Public.Order-Lines", None, ("shop", "public_order_lines")),
        ("Shop.Orders", "My-Lake", ("my_lake", "shop_orders")),
        ("orders", "lake", ("lake", "orders")),
        ("shop.žluťoučký kůň", None, ("shop", "_lu_ou_k__k__")),
        ("shop." + "x" * 300, None, ("shop", "x" * 255)),
    ],
)
def test_names(glue: Glue, name: str, database: str | None, expected_name: tuple[str, str]) -> None:
    FakeStore(LOCATION).register(GlueCatalog({"endpoint": glue.endpoint_url, "database": database}), name)
    table = glue.client().get_table(DatabaseName=expected_name[0], Name=expected_name[1])["Table"]
    assert column_types(table) == {"id": "int"}


@pytest.mark.parametrize("point", POINTS)
def test_slower_writer_reverts_no_change(
    glue: Glue, database: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, name = FakeStore(LOCATION), f"{database}.t"
    slow, quick = (GlueCatalog({"endpoint": glue.endpoint_url}) for _ in range(2))
    store.register(slow, name)

    written = store.commit("slow")
    with overtake(
        monkeypatch, GlueClient, store, lambda: store.register(quick, name, store.commit("quick")), point=point
    ):
        store.register(slow, name, written)
    assert column_types(glue.tables(database)["t"]).keys() == {"id", "slow", "quick"}
    assert glue.places(database, "t") == spell_as_aws(store)


def test_two_pipelines_on_one_table_lose_no_change(glue: Glue, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_sinks.catalogs.metastore_catalog._PAUSE", 0.02)
    store, start = FakeStore(LOCATION), threading.Barrier(3)

    def work(pipeline: str) -> None:
        catalog = GlueCatalog({"endpoint": glue.endpoint_url})
        for number in range(4):
            start.wait(60)
            store.register(catalog, f"{database}.t", store.commit(f"{pipeline}{number}"))

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(work, name) for name in ("left", "right", "middle")]:
            done.result()
    table = glue.tables(database)["t"]
    assert column_types(table).keys() == set(store.columns)
    assert table["StorageDescriptor"]["Location"] == "s3://lake/t"
    assert glue.places(database, "t") == spell_as_aws(store)
    found = glue.partitions(database, "t").values()
    assert all(column_types(one).keys() == set(store.columns) for one in found)


def test_more_partitions_than_one_request_allows(glue: Glue, database: str, glue_operations: list[str]) -> None:
    store, catalog = FakeStore(LOCATION), GlueCatalog({"endpoint": glue.endpoint_url})
    store.partitions = {(str(number),): f"{LOCATION}/{number}" for number in range(230)}
    store.register(catalog, f"{database}.t")
    assert glue_operations.count("batch_create_partition") == 3
    assert len(glue.partitions(database, "t")) == 230
    store.partitions = {(str(number),): f"{LOCATION}/{number}" for number in range(170)}
    store.columns.append("name")
    store.register(catalog, f"{database}.t")
    assert [glue_operations.count(f"batch_{operation}_partition") for operation in ("create", "update", "delete")] == [
        3,
        2,
        3,
    ]
    assert len(glue.partitions(database, "t")) == 170


@pytest.mark.parametrize(
    ("code", "message", "kind", "expected"),
    [
        (
            "AccessDeniedException",
            "User: arn:aws:iam::1:user/a is not authorized to perform: glue:GetTable on resource: kit",
            ConfigError,
            "is not authorized to perform: glue:GetTable on resource: kit\n  fix: allow glue:GetTable to this role or user",
        ),
        (
            "AccessDeniedException",
            "Insufficient Lake Formation permission(s): Required Describe on kit",
            ConfigError,
            "Required Describe on kit\n  fix: grant this role or user the permission in Lake Formation",
        ),
        ("ExpiredTokenException", "The security token is expired", ConfigError, "the session token has expired"),
        ("ThrottlingException", "Rate exceeded", RetriableError, "AWS is busy: "),
        ("OperationTimeoutException", "The operation timed out.", RetriableError, "AWS is busy: "),
        (
            "GlueEncryptionException",
            "no key",
            ConfigError,
            "allow kms:Decrypt on the KMS key to this role or user",
        ),
        ("ConcurrentModificationException", "changed", RetriableError, "other writers keep changing the table: "),
    ],
)
def test_errors_state_a_fix(
    refusal_server: Refusing,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    message: str,
    kind: type[HeadraceError],
    expected: str,
) -> None:
    monkeypatch.setattr("headrace_aws.clients._ATTEMPTS", 1)  # boto3 increases the pause with each attempt
    monkeypatch.setattr("headrace_sinks.catalogs.metastore_catalog._PAUSE", 0.0)
    refusal_server.refuse(code, message)
    catalog = GlueCatalog({"endpoint": refusal_server.endpoint_url, "catalog.id": "111122223333"})
    with pytest.raises(kind) as caught:
        FakeStore(LOCATION).register(catalog, "kit.people")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("AWS Glue, table kit.people: ")
    assert refusal_server.asked[-1][1]["CatalogId"] == "111122223333"
