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
from headrace.testing._internal.tables import Target, put, remove
from headrace.testing.records import Records
from headrace.testing.sinks import SinkConformance
from headrace_sources import JsonFormat
from headrace_stack import Postgres


@pytest.fixture(scope="session")
def headrace_plugins() -> list[PostgresSink]:
    """Whose jar the session of the tests has."""
    return [PostgresSink(url="jdbc:postgresql://db/kit", user="kit", password="kit")]


def log_in(postgres: Postgres) -> dict[str, str]:
    """The options for its database, in which there is nothing of the tests before."""
    postgres.execute("DROP SCHEMA IF EXISTS kit, tik, shop CASCADE")
    url = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}"
    return {"url": url, "user": postgres.user, "password": postgres.password}


class TestPostgresSink(SinkConformance):
    plugin_class = PostgresSink
    refused = ({"url": "jdbc:mysql://db/shop"}, {"url": "jdbc:postgresql://db/shop?user=me&password=secret"})
    # A process that dies lets go of its connection, and with it of the lock. One that the kit has die in this process does
    # not: a test below ends the connection instead, before each statement.
    faults = 0

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.options = log_in(postgres)

    def config(self, folder: Path) -> dict[str, str]:
        return self.options


@pytest.fixture
def shop(postgres: Postgres, headrace_spark: SparkSession) -> Target:
    """A table that is not there yet."""
    return Target(PostgresSink(log_in(postgres)), headrace_spark, name="shop.people")


def list_tables(postgres: Postgres) -> list[Any]:
    return postgres.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'shop'::regnamespace")


def test_other_readers_find_plain_tables(shop: Target, postgres: Postgres) -> None:
    schema = "id int, name string, born date, seen timestamp, price decimal(10,2), tags array<string>, raw binary"
    seen = datetime(2024, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001 - as PySpark gives them
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
    assert sorted(list_tables(postgres)) == [("_headrace_batches",), ("people",)]


def test_a_write_that_is_cut_anywhere_is_whole_the_next_time(
    shop: Target, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends before each of the statements of a write in turn, and what a killed run leaves stays there."""
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
    assert sorted(list_tables(postgres)) == [("_headrace_batches",), ("people",)]


def test_two_that_write_the_same_batch_write_it_once(shop: Target) -> None:
    rows = shop.frame("id int, name string", put(1, 1, "a"), put(2, 2, "b"))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda target: target.apply(rows, "append"), [shop, replace(shop)]))
    assert sorted(result.skipped for result in results) == [False, True]
    assert [row["name"] for row in shop.rows()] == ["a", "b"]


def test_a_part_that_spark_writes_again_is_refused(shop: Target) -> None:
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
        ({"user": "guest", "password": "guest"}, ConfigError, ["permission denied", "let `user`"]),
    ],
)
def test_who_is_not_let_in_is_told_why(
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
def test_what_postgresql_cannot_hold_is_named(shop: Target, postgres: Postgres, schema: str, value: Any) -> None:
    shop.write("id int", put(1, 1))
    refused = shop.refusal(lambda: shop.write(schema, put(2, 2, value)))
    assert isinstance(refused, DataError)
    assert "note" in str(refused)
    assert "a\0b" not in str(refused)
    assert shop.rows() == [{"id": 1}]


def test_a_table_for_something_else_stays_as_it_is(shop: Target, postgres: Postgres) -> None:
    shop.write("id int, name string", put(1, 1, "a"))
    refused = shop.refusal(lambda: replace(shop, key=("name",)).write("id int, name string", put(2, 2, "b")))
    assert isinstance(refused, ConfigError)
    assert "its primary key is ['id'], and not ['name']" in str(refused)
    postgres.execute("CREATE TABLE shop.mine (id int)")
    refused = shop.refusal(lambda: replace(shop, name="shop.mine").write("id int", put(1, 1)))
    assert isinstance(refused, ConfigError)
    assert "which headrace did not make" in str(refused)
    with pytest.raises(ConfigError, match="63 bytes"):
        shop.sink.check_table(Table("shop." + "x" * 64), "append")
    with pytest.raises(ConfigError, match="a schema and a table"):
        shop.sink.check_table(Table("lake.shop.people"), "append")


def test_the_password_is_in_no_plan(shop: Target) -> None:
    shop.write("id int", put(1, 1))
    shop.rows()
    executions = shop.session._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(number).physicalPlanDescription() for number in range(executions.size())]
    assert any("shop" in plan for plan in plans)
    assert not any(shop.sink.config.password.get_secret_value() in plan for plan in plans)


def test_a_pipeline_writes_there(
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
