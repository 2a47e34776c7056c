from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from headrace_postgres_sink import PostgresSink, Server
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import ConfigError, DataError, LoginError, RetriableError, Table
from headrace.testing.records import Records
from headrace.testing.sinks import SinkConformance
from headrace.testing.tables import Target, put, remove
from headrace_sources import JsonFormat
from headrace_stack import Postgres


@pytest.fixture(scope="session")
def headrace_plugins() -> list[PostgresSink]:
    """Return the plugins whose jars the test session needs."""
    return [PostgresSink(url="jdbc:postgresql://db/kit", user="kit", password="kit")]


def log_in(postgres: Postgres) -> dict[str, str]:
    """Return the options for the database, after removing the data of earlier tests."""
    postgres.execute("DROP SCHEMA IF EXISTS kit, tik, shop CASCADE")
    url = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}"
    return {"url": url, "user": postgres.user, "password": postgres.password}


class TestPostgresSink(SinkConformance):
    plugin_class = PostgresSink
    refused = ({"url": "jdbc:mysql://db/shop"}, {"url": "jdbc:postgresql://db/shop?user=me&password=secret"})
    # A killed process releases its connection and so its lock. The kit simulates the kill in this process, where the
    # connection stays open. A test below closes the connection instead, before each statement.
    faults = 0

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.options = log_in(postgres)

    def config(self, folder: Path) -> dict[str, str]:
        return self.options


@pytest.fixture
def shop(postgres: Postgres, headrace_spark: SparkSession) -> Target:
    """Return a target for a table that does not exist yet."""
    return Target(PostgresSink(log_in(postgres)), headrace_spark, name="shop.people")


def list_tables(postgres: Postgres) -> list[Any]:
    return postgres.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'shop'::regnamespace")


def test_other_clients_see_plain_tables(shop: Target, postgres: Postgres) -> None:
    schema = "id int, name string, born date, seen timestamp, price decimal(10,2), tags array<string>, raw binary"
    seen = datetime(2024, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001 - PySpark returns naive timestamps
    shop.write(schema, put(1, 1, "Arp", date(1886, 9, 16), seen, Decimal("1.10"), ["dada"], b"\x00\xff"))
    shop.write(schema, put(2, 2, "Höch", None, None, None, None, None), remove(3, 1, *[None] * 6))
    shop.write(schema, put(4, 3, "Klee", date(1879, 12, 18), seen, Decimal("-3.00"), [], b""))
    found = postgres.query(
        "SELECT id, name, born, seen AT TIME ZONE 'UTC', price, tags, raw FROM shop.people ORDER BY id"
    )
    assert found == [
        (2, "Höch", None, None, None, None, None),
        (3, "Klee", date(1879, 12, 18), seen, Decimal("-3.00"), [], b""),
    ]
    assert sorted(list_tables(postgres)) == [("_headrace_marks",), ("people",)]


def test_an_interrupted_write_is_completed_by_the_next(
    shop: Target, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Close the connection before each statement of a write in turn, and keep the leftovers of the killed run."""
    run, left = Server.run, 0

    def cut(self: Server, sql: str, *values: str) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            self._connection.close()
        return run(self, sql, *values)

    monkeypatch.setattr(Server, "run", cut)
    shop.write("id int, name string", put(1, 1, "a"), mode="append")
    for statement in range(1, 20):
        left = statement
        rows = shop.frame("id int, name string", put(2, 2, "b"), put(3, 3, "c"))
        if shop.refusal(partial(shop.apply, rows, "append")) is None:
            break
        assert shop.rows() == [{"id": 1, "name": "a"}]
    assert statement > 5
    assert [row["name"] for row in shop.rows()] == ["a", "b", "c"]
    assert sorted(list_tables(postgres)) == [("_headrace_marks",), ("people",)]


def test_two_writers_of_a_batch_write_it_once(shop: Target) -> None:
    rows = shop.frame("id int, name string", put(1, 1, "a"), put(2, 2, "b"))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda target: target.apply(rows, "append"), [shop, replace(shop)]))
    assert sorted(result.skipped for result in results) == [False, True]
    assert [row["name"] for row in shop.rows()] == ["a", "b"]


def test_a_repeated_spark_partition_is_rejected(shop: Target) -> None:
    rows = shop.frame("id int", put(1, 1))
    sink: Any = shop.sink
    with sink._open(shop.session) as server:
        server.lock(shop.table)
        stage = server.create_stage(shop.table, rows.schema)
        sink._copy(rows, stage)
        assert isinstance(shop.refusal(lambda: sink._copy(rows, stage)), RetriableError)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"password": "wrong"}, LoginError, ["password authentication failed", "`password`"]),
        ({"url": "jdbc:postgresql://127.0.0.1:9/shop"}, RetriableError, ["refused"]),
        ({"user": "guest", "password": "guest"}, ConfigError, ["permission denied", "allow `user`"]),
    ],
)
def test_rejected_connections_are_explained(
    shop: Target, postgres: Postgres, change: dict[str, str], kind: type[Exception], words: list[str]
) -> None:
    if "user" in change:
        postgres.execute("CREATE USER guest PASSWORD 'guest'")
    options = {**shop.sink.config.model_dump(exclude_none=True), **change}
    refused = shop.refusal(lambda: replace(shop, sink=PostgresSink(options)).write("id int", put(1, 1)))
    assert type(refused) is kind
    assert all(word in str(refused) for word in words)


@pytest.mark.parametrize(
    ("schema", "value"),
    [("id int, note string", "a\0b"), ("id int, note array<string>", ["a\0b"]), (f"id int, {'note' * 16} int", 1)],
    ids=["NUL", "NUL in JSON", "long name"],
)
def test_unsupported_values_name_the_column(shop: Target, postgres: Postgres, schema: str, value: Any) -> None:
    shop.write("id int", put(1, 1))
    refused = shop.refusal(lambda: shop.write(schema, put(2, 2, value)))
    assert isinstance(refused, DataError)
    assert "note" in str(refused)
    assert "a\0b" not in str(refused)
    assert shop.rows() == [{"id": 1}]


def test_foreign_tables_are_rejected_unchanged(shop: Target, postgres: Postgres) -> None:
    shop.write("id int, name string", put(1, 1, "a"))
    refused = shop.refusal(lambda: replace(shop, key=("name",)).write("id int, name string", put(2, 2, "b")))
    assert isinstance(refused, ConfigError)
    assert "its primary key is ['id'], and not ['name']" in str(refused)
    postgres.execute("CREATE TABLE shop.mine (id int)")
    refused = shop.refusal(lambda: replace(shop, name="shop.mine").write("id int", put(1, 1)))
    assert isinstance(refused, ConfigError)
    assert "which headrace did not create" in str(refused)
    with pytest.raises(ConfigError, match="63 bytes"):
        shop.sink.check_table(Table("shop." + "x" * 64), "append")
    with pytest.raises(ConfigError, match="a schema and a table"):
        shop.sink.check_table(Table("lake.shop.people"), "append")


def test_plans_do_not_contain_the_password(shop: Target) -> None:
    shop.write("id int", put(1, 1))
    shop.rows()
    executions = shop.session._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(number).physicalPlanDescription() for number in range(executions.size())]
    assert any("shop" in plan for plan in plans)
    assert not any(shop.sink.config.password.get_secret_value() in plan for plan in plans)


def test_a_pipeline_writes_to_the_sink(
    shop: Target, postgres: Postgres, headrace_spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        b'{"id": 1, "name": "Arp", "__deleted": "false"}',
        b'{"id": 2, "name": "Klee", "__deleted": "false"}',
        b'{"id": 1, "name": "Hans Arp", "__deleted": "false"}',
        b'{"id": 2, "name": "Klee", "__deleted": "true"}',
    ]
    people = Pipeline(
        name="people",
        source=Records("shop.people", *events),
        value=JsonFormat(),
        key="none",
        tables=[{"source": "*", "key": "id", "target": "{topic}"}],
        sinks=[shop.sink],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    assert postgres.query("SELECT id, name FROM shop.people") == [(1, "Hans Arp")]
