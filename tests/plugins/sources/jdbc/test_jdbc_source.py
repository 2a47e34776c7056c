"""Tables of real databases, read into Iceberg and compared with the database."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.waiting import stop_at_end, until_tables

from headrace import ConfigError, HeadraceError, Pipeline
from headrace.errors import LoginError
from headrace.sdk import SchemaLog, SourceContext
from headrace_sources.jdbc.jdbc_database import JdbcSession
from headrace_sources.jdbc.jdbc_source import JdbcSource
from headrace_stack import MariaDb, Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist]
WITH_BOTH = {
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "updated_at",
    "incrementing.column.name": "id",
}


def login(server: Postgres | MariaDb, **options: Any) -> dict[str, Any]:
    scheme = "postgresql" if isinstance(server, Postgres) else "mariadb"
    return {
        "connection.url": f"jdbc:{scheme}://{server.host}:{server.port}/{server.database}",
        "connection.user": server.user,
        "connection.password": server.password,
        **options,
    }


def make_pipeline(folder: Path, server: Postgres | MariaDb, options: dict[str, Any], **changed: Any) -> Pipeline:
    tables = [{"source": "shop_*", "target": "shop.{topic}"}]
    source = {"jdbc": {"topic.prefix": "shop_", "poll.interval.ms": 0, **login(server), **options}}
    return pipelines.pipeline(folder, "iceberg", **{"source": source, "tables": tables, "transforms": [], **changed})


@pytest.fixture
def schema(postgres: Postgres) -> str:
    name = f"s{uuid.uuid4().hex[:8]}"
    postgres.execute(
        f"create schema {name};"
        f"create table {name}.orders (id int primary key, name text, amount numeric(10, 2), deleted boolean not null default false,"
        "  placed_at timestamp, updated_at timestamptz not null default now() - interval '1 minute');"
        f"create table {name}.items (id int primary key, name text, deleted boolean not null default false,"
        "  updated_at timestamptz not null default now() - interval '1 minute');"
        f"create index on {name}.orders (updated_at, id); create index on {name}.items (updated_at, id);"
        f"insert into {name}.orders values (1, 'one', 1.50, false, '2026-02-28 12:30:00.123456'), (2, 'žlutý', null, false, null);"
        f"insert into {name}.items values (7, 'seven')"
    )
    return name


def test_tables_equal_the_database_after_changes_late_commits_and_soft_deletes(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    def database(table: str) -> list[tuple[Any, ...]]:
        columns = "id, name, amount::text, placed_at::text" if table == "orders" else "id, name"
        return postgres.query(f"select {columns} from {schema}.{table} where not deleted order by id")

    def lake(table: str) -> list[tuple[Any, ...]]:
        rows = pipelines.rows(pipeline, spark, f"shop.shop_{table}", key="id")
        if table == "items":
            return [(row["id"], row["name"]) for row in rows]
        amounts = [None if row["amount"] is None else str(row["amount"]) for row in rows]
        placed = [None if row["placed_at"] is None else str(row["placed_at"]) for row in rows]
        return [(row["id"], row["name"], *rest) for row, *rest in zip(rows, amounts, placed, strict=True)]

    tables = {"table.include.list": f"{schema}[.](orders|items)", "deleted.column.name": "deleted"}
    pipeline = make_pipeline(tmp_path, postgres, {**WITH_BOTH, **tables})
    pipeline.run(spark)
    assert {table: lake(table) for table in ("orders", "items")} == {t: database(t) for t in ("orders", "items")}
    # The row 4 has the time of a transaction that began before the newest row that was read.
    postgres.execute(
        f"insert into {schema}.orders values (4, 'late', 4, false, null, now() - interval '80 seconds');"
        f"update {schema}.orders set name = 'eins', updated_at = now() where id = 1;"
        f"update {schema}.orders set deleted = true, updated_at = now() where id = 2"
    )
    pipeline.run(spark)
    assert lake("orders") == database("orders")
    assert [row[0] for row in lake("orders")] == [1, 4]
    assert lake("items") == database("items")


@pytest.mark.nightly
def test_mariadb_by_number_and_in_batches(tmp_path: Path, spark: SparkSession, mariadb: MariaDb) -> None:
    mariadb.execute(
        "drop database if exists market; create database market;"
        "create table market.sales (id int primary key auto_increment, name varchar(20), paid tinyint(1), price decimal(8, 2),"
        " sold datetime(6), changed timestamp(6) not null default '2026-01-02 03:04:05.678901');"
        "insert into market.sales (name, paid, price, sold) values ('a', 1, 1.5, '2026-03-29 02:30:00.000001'), ('b', 0, null, null),"
        " ('c', null, 3, null)"
    )
    options = {
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "batch.max.rows": 2,
        "catalog.pattern": "market",
    }
    pipeline = make_pipeline(tmp_path, mariadb, options)
    pipeline.run(spark)
    rows = pipelines.rows(pipeline, spark, "shop.shop_sales", key="id")
    assert [(row["id"], row["name"], row["paid"], str(row["price"]), str(row["sold"])) for row in rows] == [
        (1, "a", True, "1.50", "2026-03-29 02:30:00.000001"),
        (2, "b", False, "None", "None"),
        (3, "c", None, "3.00", "None"),
    ]
    changed = (
        pipeline.read("shop.shop_sales", spark=spark).selectExpr("unix_micros(changed) micros").distinct().collect()
    )
    assert [row["micros"] for row in changed] == [1767323045678901]
    mariadb.execute("insert into market.sales (name) values ('d')")
    pipeline.run(spark)
    assert [row["name"] for row in pipelines.rows(pipeline, spark, "shop.shop_sales", key="id")] == ["a", "b", "c", "d"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["datetime", "timestamp(6)"])
def test_mariadb_by_time(tmp_path: Path, spark: SparkSession, mariadb: MariaDb, kind: str) -> None:
    def lake() -> list[tuple[int, str]]:
        return [(row["id"], row["name"]) for row in pipelines.rows(pipeline, spark, "shop.shop_stock", key="id")]

    mariadb.execute(
        "drop database if exists depot; create database depot; set time_zone = '+00:00';"
        f"create table depot.stock (id int primary key, name text, changed {kind} not null, index (changed));"
        "insert into depot.stock values (1, 'one', now(6) - interval 20 second), (2, 'two', now(6) - interval 2 second)"
    )
    options = {"mode": "timestamp", "timestamp.column.name": "changed", "table.whitelist": "depot.stock"}
    pipeline = make_pipeline(tmp_path, mariadb, {**options, "catalog.pattern": "depot"})
    pipeline.run(spark)
    assert lake() == [(1, "one"), (2, "two")]
    mariadb.execute(
        "set time_zone = '+00:00'; update depot.stock set name = 'late', changed = now(6) - interval 9 second where id = 1"
    )
    pipeline.run(spark)
    assert lake() == [(1, "late"), (2, "two")]


@pytest.mark.nightly
def test_query_is_loaded_as_a_whole(tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str) -> None:
    query = f"select i.id, o.name as order_name from {schema}.items i cross join {schema}.orders o where o.id = 1"
    tables = [{"source": "shop_sales", "target": "shop.sales", "key": ["id"]}]
    pipeline = make_pipeline(
        tmp_path, postgres, {"mode": "bulk", "query": query, "topic.prefix": "shop_sales"}, tables=tables
    )
    pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "shop.sales", key="id") == [{"id": 7, "order_name": "one"}]
    postgres.execute(
        f"update {schema}.orders set name = 'two' where id = 1; insert into {schema}.items values (8, 'x')"
    )
    pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "shop.sales", key="id") == [
        {"id": 7, "order_name": "two"},
        {"id": 8, "order_name": "two"},
    ]


@pytest.mark.nightly
def test_wrong_input_is_an_error_with_a_fix(spark: SparkSession, postgres: Postgres, schema: str) -> None:
    def refuse(**options: Any) -> HeadraceError:
        source = JdbcSource({"mode": "bulk", **login(postgres), **options})
        source.open(spark)
        with pytest.raises(HeadraceError) as error:
            source.latest(source.initial(), None)
        assert "fix:" in str(error.value)
        return error.value

    wrong = refuse(**{"connection.password": "wrong"})
    assert isinstance(wrong, LoginError)
    assert "wrong" not in str(wrong)
    assert "no table matches 'ordres'" in str(refuse(**{"table.whitelist": "ordres"}))
    double = f"select o.id, i.id from {schema}.orders o, {schema}.items i"
    assert "two columns of the name 'id'" in str(refuse(query=double, **{"topic.prefix": "t"}))
    missing = {**WITH_BOTH, "timestamp.column.name": "changed_at", "table.include.list": f"{schema}[.]orders"}
    assert "no such column: 'changed_at'" in str(refuse(**missing))
    postgres.execute(
        f"create table {schema}.notes (id int, updated_at timestamp); insert into {schema}.notes values (1)"
    )
    assert "1 row has no value" in str(refuse(**{**WITH_BOTH, "table.include.list": f"{schema}[.]notes"}))
    driver = refuse(driver="com.acme.Driver")
    assert isinstance(driver, ConfigError)
    assert "the driver is missing: com.acme.Driver" in str(driver)


@pytest.mark.nightly
def test_table_without_an_index_is_reported(
    spark: SparkSession, postgres: Postgres, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    postgres.execute(f"create table {schema}.slow (id int primary key, updated_at timestamp not null)")
    options = {**WITH_BOTH, "table.include.list": f"{schema}[.].*"}
    found = dict(JdbcSource(login(postgres, **options)).connect(spark))
    assert found["topic orders"] == "key id"
    assert "key id; no index starts with updated_at" in found["topic slow"]
    source = JdbcSource(login(postgres, **options))
    source.open(spark)
    source.latest(source.initial(), None)
    assert [record.getMessage() for record in caplog.records if "no index" in record.getMessage()] == [
        f"source jdbc, {schema}.slow: {found['topic slow']}"
    ]


@pytest.mark.nightly
def test_range_is_divided_among_connections(spark: SparkSession, postgres: Postgres, schema: str) -> None:
    postgres.execute(f"insert into {schema}.items select i, 'many ' || i from generate_series(100, 499) i")
    options = {"mode": "bulk", "table.include.list": f"{schema}[.]items", "numPartitions": 4}
    source = JdbcSource(login(postgres, **options))
    source.open(spark)
    start = source.initial()
    context = SourceContext(spark, SchemaLog(), range=(start, source.latest(start, None)))
    (events,) = source.events(context, spark.range(0))
    frame = events.load(spark, events.schema)
    assert frame.rdd.getNumPartitions() == 4
    rows = frame.select("value.row.*").orderBy("id").collect()
    assert [(row["id"], row["name"]) for row in rows] == postgres.query(
        f"select id, name from {schema}.items order by id"
    )


@pytest.mark.nightly
def test_load_removes_rows_that_the_database_lacks(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    options = {"mode": "bulk", "table.include.list": f"{schema}[.]orders", "delete.missing": True}
    pipeline = make_pipeline(tmp_path, postgres, options)

    def lake() -> list[int]:
        return [row["id"] for row in pipelines.rows(pipeline, spark, "shop.shop_orders", key="id")]

    for statement, ids in (
        ("select 1", [1, 2]),
        (f"delete from {schema}.orders where id = 1; insert into {schema}.orders (id) values (3)", [2, 3]),
        (f"delete from {schema}.orders", []),
        (f"insert into {schema}.orders (id) values (1)", [1]),
    ):
        postgres.execute(statement)
        pipeline.run(spark)
        assert lake() == ids
    assert pipeline.read_dead_letters(spark) is None


@pytest.mark.nightly
def test_changes_after_the_clock_went_back_replace_earlier_ones(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(tmp_path, postgres, {**WITH_BOTH, "table.include.list": f"{schema}[.]items"})
    postgres.execute(f"update {schema}.items set name = 'fast', updated_at = now() + interval '50 minutes'")
    with monkeypatch.context() as patch:
        # The clock of a server cannot be set: this is a database whose clock is an hour fast.
        read_clock = JdbcSession.read_clock
        patch.setattr(JdbcSession, "read_clock", lambda session: read_clock(session) + timedelta(hours=1))
        pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "shop.shop_items", key="id")[0]["name"] == "fast"
    postgres.execute(f"update {schema}.items set name = 'right', updated_at = now() - interval '1 second'")
    summary = pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "shop.shop_items", key="id")[0]["name"] == "right"
    assert "since the clock went back to" in str(pipeline.history(spark)[-summary.batches :])


@pytest.mark.nightly
@pytest.mark.slow
def test_table_under_transactions_that_commit_late_equals_the_database(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    def write(writer: int) -> None:
        random, connection = Random(writer), postgres.connect()
        for number in range(20):
            key = 1000 * writer + number % 8
            connection.run("begin")
            connection.run(
                f"insert into {schema}.items (id, name, updated_at) values ({key}, 'first', clock_timestamp()) on conflict (id)"
                f" do update set name = 'change {number}', updated_at = clock_timestamp(), deleted = {number % 7 == 6}"
            )
            time.sleep(random.uniform(0, 1.5))
            connection.run("commit")
        connection.close()

    def database() -> list[tuple[Any, ...]]:
        return postgres.query(f"select id, name from {schema}.items where not deleted order by id")

    def lake() -> list[tuple[Any, ...]]:
        return [(row["id"], row["name"]) for row in pipelines.rows(pipeline, spark, "shop.shop_items", key="id")]

    options = {**WITH_BOTH, "table.include.list": f"{schema}[.]items", "deleted.column.name": "deleted"}
    pipeline = make_pipeline(tmp_path, postgres, {**options, "timestamp.window.interval.ms": 5000})
    pipeline.run(spark)
    with ThreadPoolExecutor() as pool, stop_at_end(pipeline.start(spark, "100 ms")) as query:
        list(pool.map(write, range(1, 6)))
        until_tables(query, lambda: (lake(), database()), "iceberg")
