"""Tables of real databases, read into Iceberg and compared with the database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.waiting import stop_at_end, until_tables

from headrace import ConfigError, HeadraceError, Pipeline
from headrace.errors import DataError, LoginError, RetriableError
from headrace.sdk import SchemaLog, SourceContext
from headrace_sources.jdbc.jdbc_database import JdbcSession
from headrace_sources.jdbc.jdbc_source import JdbcSource
from headrace_stack import MariaDb, Postgres

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


@contextmanager
def set_jvm_zone(spark: SparkSession, name: str) -> Iterator[None]:
    """Set the time zone of the JVM for the block. Executors of a local session have the same JVM."""
    zones: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]  # PySpark has no public API for the JVM
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


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


def test_tables_equal_the_database_after_changes_late_commits_and_deletes(
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
    pipeline = make_pipeline(tmp_path, postgres, {**WITH_BOTH, **tables, "reconcile": "1 ms"})
    pipeline.run(spark)
    assert {table: lake(table) for table in ("orders", "items")} == {t: database(t) for t in ("orders", "items")}
    # The row 4 has the time of a transaction that began before the newest row that was read.
    postgres.execute(
        f"insert into {schema}.orders values (4, 'late', 4, false, null, now() - interval '80 seconds');"
        f"update {schema}.orders set name = 'eins', updated_at = now() where id = 1;"
        f"update {schema}.orders set deleted = true, updated_at = now() where id = 2;"
        f"insert into {schema}.items values (8, 'eight'); delete from {schema}.items where id = 7"
    )
    summary = pipeline.run(spark)
    assert lake("orders") == database("orders")
    assert [row[0] for row in lake("orders")] == [1, 4]
    assert lake("items") == database("items") == [(8, "eight")]
    assert [table.applied for table in summary.tables if table.table == "shop.shop_items"] == [2]


@pytest.mark.nightly
def test_mariadb_by_number_and_in_batches(tmp_path: Path, spark: SparkSession, mariadb: MariaDb) -> None:
    mariadb.execute(
        "drop database if exists market; create database market;"
        "create table market.sales (id int primary key auto_increment, name varchar(20), paid tinyint(1), price decimal(8, 2),"
        " sold datetime(6), changed timestamp(6) not null default '2026-01-02 03:04:05.678901');"
        "insert into market.sales (name, paid, price, sold) values ('a', 1, 1.5, '2026-03-29 02:30:00.000001'), ('b', 0, null, null),"
        " ('c', null, 3, '0000-00-00')"
    )
    options = {
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "batch.max.rows": 2,
        "catalog.pattern": "market",
    }
    pipeline = make_pipeline(tmp_path, mariadb, options)
    with set_jvm_zone(spark, "Asia/Tokyo"):
        pipeline.run(spark)
    rows = pipelines.rows(pipeline, spark, "shop.shop_sales", key="id")
    assert [(row["id"], row["name"], row["paid"], str(row["price"]), str(row["sold"])) for row in rows] == [
        (1, "a", 1, "1.50", "2026-03-29 02:30:00.000001"),
        (2, "b", 0, "None", "None"),
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
    host = refuse(**{"connection.url": "jdbc:postgresql://unknown.invalid:5432/shop"})
    assert isinstance(host, RetriableError)
    assert "unknown.invalid" in str(host)
    deletes = f"with gone as (delete from {schema}.items returning *) select * from gone"
    source = JdbcSource(login(postgres, mode="bulk", query=deletes, **{"topic.prefix": "t"}))
    source.open(spark)
    context = SourceContext(spark, SchemaLog(), range=(source.initial(), source.latest(source.initial(), None)))
    (failed,) = source.events(context, spark.range(0))
    explained = source.explain(failed.error) if failed.error else None
    assert "data-modifying statement must be at the top level" in str(explained)
    assert postgres.query(f"select count(*) from {schema}.items") == [(1,)]
    double = f"select o.id, i.id from {schema}.orders o, {schema}.items i"
    assert "two columns have the name 'id'" in str(refuse(query=double, **{"topic.prefix": "t"}))
    missing = {**WITH_BOTH, "timestamp.column.name": "changed_at", "table.include.list": f"{schema}[.]orders"}
    assert "no such column: 'changed_at'" in str(refuse(**missing))
    text = {"mode": "timestamp", "timestamp.column.name": "name", "table.include.list": f"{schema}[.]orders"}
    assert "'name' has the type text, which does not order rows by time" in str(refuse(**text))
    amount = {"mode": "incrementing", "incrementing.column.name": "amount", "table.include.list": f"{schema}[.]orders"}
    assert "'amount' has the type numeric, which does not order rows by number" in str(refuse(**amount))
    driver = refuse(driver="com.acme.Driver")
    assert isinstance(driver, ConfigError)
    assert "the driver is missing: com.acme.Driver" in str(driver)


@pytest.mark.nightly
def test_table_that_may_not_be_read_does_not_stop_the_others(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    def lake(table: str) -> list[int]:
        return [row["id"] for row in pipelines.rows(pipeline, spark, f"shop.shop_{table}", key="id")]

    postgres.execute(
        f"create role r{schema} login password 'reader'; grant usage on schema {schema} to r{schema};"
        f"grant select on {schema}.orders to r{schema}"
    )
    reader = {"connection.user": f"r{schema}", "connection.password": "reader"}
    pipeline = make_pipeline(
        tmp_path, postgres, {**WITH_BOTH, **reader, "table.include.list": f"{schema}[.](orders|items)"}
    )
    with pytest.raises(ConfigError) as error:
        pipeline.run(spark)
    assert "permission denied for table items" in str(error.value)
    assert "grant SELECT to `connection.user`" in str(error.value)
    assert lake("orders") == [1, 2]
    postgres.execute(f"insert into {schema}.orders (id) values (3)")
    with pytest.raises(ConfigError, match="permission denied"):
        pipeline.run(spark)
    assert lake("orders") == [1, 2, 3]
    postgres.execute(f"grant select on {schema}.items to r{schema}")
    pipeline.run(spark)
    assert (lake("orders"), lake("items")) == ([1, 2, 3], [7])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    ['id"::text || (select max(v) from {schema}.secret) || "id', "ID", "_headrace_x"],
    ids=["sql", "case", "own"],
)
def test_column_name_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str, name: str
) -> None:
    quoted = name.format(schema=schema).replace('"', '""')
    postgres.execute(
        f"create table {schema}.secret (v text primary key); insert into {schema}.secret values ('TOPSECRET');"
        f"create table {schema}.odd (id int primary key, \"{quoted}\" text); insert into {schema}.odd values (1, 'x')"
    )
    pipeline = make_pipeline(tmp_path, postgres, {"mode": "bulk", "table.include.list": f"{schema}[.](odd|items)"})
    with pytest.raises(DataError) as error:
        pipeline.run(spark)
    assert f"source jdbc, {schema}.odd" in str(error.value)
    assert pipelines.rows(pipeline, spark, "shop.shop_items", key="id")[0]["name"] == "seven"
    # The column is added after the search for tables, and its name is still not used.
    postgres.execute(f"drop table {schema}.odd; create table {schema}.odd (id int primary key)")
    source = JdbcSource({"mode": "bulk", **login(postgres), "table.include.list": f"{schema}[.]odd"})
    source.open(spark)
    end = source.latest(source.initial(), None)
    postgres.execute(f'alter table {schema}.odd add column "{quoted}" text')
    context = SourceContext(spark, SchemaLog(), range=(source.initial(), end))
    (events,) = source.events(context, spark.range(0))
    assert isinstance(events.error, DataError)


@pytest.mark.nightly
def test_values_do_not_depend_on_the_zone_of_the_jvm(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    postgres.execute(
        f"create table {schema}.odd (at time primary key, local timestamp, zoned timestamptz, day date, many timestamp[], n numeric);"
        f"insert into {schema}.odd values ('10:00', '2026-03-29 02:30', '1890-01-01 00:00Z', 'infinity', '{{2026-03-29 02:30}}', 1),"
        " ('10:00:00.5', 'infinity', '-infinity', null, null, 2), ('11:00', '0044-03-15 BC', null, null, null, null),"
        " ('12:00', null, null, null, null, 'NaN')"
    )
    pipeline = make_pipeline(tmp_path, postgres, {"mode": "bulk", "table.include.list": f"{schema}[.]odd"})
    with set_jvm_zone(spark, "Europe/Zurich"):
        pipeline.run(spark)
        postgres.execute(f"alter table {schema}.odd add column later timestamptz default '2026-01-31 12:00Z'")
        pipeline.run(spark)
    frame = pipeline.read("shop.shop_odd", spark=spark).orderBy("at")
    texts = [
        "at",
        "string(local)",
        "unix_seconds(zoned)",
        "string(day)",
        "string(many)",
        "string(n)",
        "unix_seconds(later)",
    ]
    assert [tuple(row) for row in frame.selectExpr(*texts).collect()] == [
        (
            *("10:00:00", "2026-03-29 02:30:00", -2524521600, "9999-12-31", "[2026-03-29 02:30:00]"),
            *("1.000000000000000000", 1769860800),
        ),
        ("10:00:00.5", "9999-12-31 00:00:00", -62135596800, None, None, "2.000000000000000000", 1769860800),
    ]
    letters = pipeline.read_dead_letters(spark)
    assert letters is not None
    assert {row["error"] for row in letters.collect()} == {
        "the value of local does not fit timestamp_ntz",
        "the value of n does not fit decimal(38,18)",
    }


def find_topics(spark: SparkSession, postgres: Postgres, **options: Any) -> dict[str, str]:
    """Return topic → description, as ``headrace check --connect`` shows it."""
    source = JdbcSource(login(postgres, mode="bulk", **options))
    return {name.removeprefix("topic "): text for name, text in source.connect(spark) if name.startswith("topic ")}


@pytest.mark.nightly
def test_partitioned_table_is_read_once(tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str) -> None:
    postgres.execute(
        f"create table {schema}.visits (id int, day date, name text, primary key (day, id)) partition by range (day);"
        f"create table {schema}.visits_2025 partition of {schema}.visits for values from ('2025-01-01') to ('2026-01-01');"
        f"create table {schema}.visits_2026 partition of {schema}.visits for values from ('2026-01-01') to ('2027-01-01')"
        "  partition by range (day);"
        f"create table {schema}.visits_2026_h1 partition of {schema}.visits_2026 for values from ('2026-01-01') to ('2026-07-01');"
        f"insert into {schema}.visits values (1, '2025-05-05', 'a'), (2, '2026-02-02', 'b')"
    )
    everything = {"schema.pattern": schema}
    found = find_topics(spark, postgres, **everything)
    assert found.keys() == {"orders", "items", "visits"}
    assert "day, id" in found["visits"]
    partitions = {"visits_2025", "visits_2026_h1"}
    assert find_topics(spark, postgres, **everything, **{"table.types": "TABLE"}).keys() == {
        "orders",
        "items",
        *partitions,
    }
    assert find_topics(spark, postgres, **{"table.whitelist": f"{schema}.visits_2025"}).keys() == {"visits_2025"}
    pipeline = make_pipeline(tmp_path, postgres, {"mode": "bulk", "table.include.list": f"{schema}[.]visits.*"})
    pipeline.run(spark)
    rows = pipelines.rows(pipeline, spark, "shop.shop_visits", key="id")
    assert [(row["id"], str(row["day"]), row["name"]) for row in rows] == [
        (1, "2025-05-05", "a"),
        (2, "2026-02-02", "b"),
    ]


@pytest.mark.nightly
def test_arrays_of_arrays_are_dead_letters(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    postgres.execute(
        f"create table {schema}.odd (id int primary key, t text[], u uuid[], j jsonb[], i int[], f float8[], b bytea[],"
        "  n numeric(5, -2), s numeric(3, 5), ns numeric(3, 5)[], m bit(3)[], o bit(1)[]);"
        f"insert into {schema}.odd (id, t, i, f, b, n, s, ns, m, o) values (1, '{{a,null}}', '{{}}', '{{NaN}}', array['\\x01'::bytea],"
        "  12345, 0.00123, '{0.00123}', array[b'101'], array[b'1']);"
        f"insert into {schema}.odd (id, t) values (2, '{{{{a,b}},{{c,d}}}}');"
        f"insert into {schema}.odd (id, u) values (3, '{{{{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}}}}');"
        f"insert into {schema}.odd (id, j) values (4, array[array['1'::jsonb]]);"
        f"insert into {schema}.odd (id, i) values (5, '{{{{1,2}},{{3,4}}}}');"
        f"insert into {schema}.odd (id, f) values (6, '{{{{1}}}}');"
        f"insert into {schema}.odd (id, b) values (7, array[array['\\x01'::bytea]])"
    )
    pipeline = make_pipeline(tmp_path, postgres, {"mode": "bulk", "table.include.list": f"{schema}[.]odd"})
    pipeline.run(spark)
    ((*arrays, n, s, ns, bits, flags),) = (
        pipeline.read("shop.shop_odd", spark=spark)
        .selectExpr("id", "t", "i", "string(f)", "hex(b[0])", "int(n)", "double(s)", "double(ns[0])", "m", "o")
        .collect()
    )
    assert arrays == [1, ["a", None], [], "[NaN]", "01"]
    assert (n, s, ns, bits, flags) == (12300, 0.00123, 0.00123, ["101"], [True])
    letters = pipeline.read_dead_letters(spark)
    assert letters is not None
    found = {row["error"]: row["value"].decode() for row in letters.collect()}
    kinds = {"t": "string", "u": "string", "j": "string", "i": "int", "f": "double", "b": "binary"}
    assert found.keys() == {f"the value of {name} does not fit array<{kind}>" for name, kind in kinds.items()}
    assert '"t":"{{a,b},{c,d}}"' in found["the value of t does not fit array<string>"]


@pytest.mark.nightly
def test_types_of_mariadb_have_the_values_of_the_database(
    tmp_path: Path, spark: SparkSession, mariadb: MariaDb
) -> None:
    mariadb.execute(
        "drop database if exists kinds; create database kinds character set utf8mb4; set sql_mode = '';"
        "create table kinds.odd (e enum('new', 'in progress') primary key, s set('a', 'b', 'c d'), c char(5), v4 inet4, v6 inet6,"
        " u uuid, t tinyint(1), tu tinyint(1) unsigned, y year, b1 bit(1), b bit(3));"
        "insert into kinds.odd values ('new', 'a,c d', 'é ', '10.0.0.1', '::1', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 2, 200, 2024, b'1', b'101'),"
        " ('in progress', '', '', null, null, null, -5, 0, 0, b'0', null)"
    )
    options = {"mode": "bulk", "catalog.pattern": "kinds", "delete.missing": True}
    pipeline = make_pipeline(tmp_path, mariadb, options)
    pipeline.run(spark)
    frame = pipeline.read("shop.shop_odd", spark=spark).select(
        "e", "s", "c", "v4", "v6", "u", "t", "tu", "y", "b1", "b"
    )
    assert [kind for _, kind in frame.dtypes[-5:]] == ["int", "int", "int", "boolean", "bigint"]
    assert {tuple(row) for row in frame.collect()} == {
        ("new", "a,c d", "é", "10.0.0.1", "::1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 2, 200, 2024, True, 5),
        ("in progress", "", "", None, None, None, -5, 0, 0, False, None),
    }


@pytest.mark.nightly
def test_column_that_is_added_between_search_and_read_has_its_type(spark: SparkSession, mariadb: MariaDb) -> None:
    mariadb.execute(
        "drop database if exists late; create database late; create table late.odd (id int primary key);"
        "insert into late.odd values (1)"
    )
    options = {"mode": "bulk", "catalog.pattern": "late"}
    source = JdbcSource(login(mariadb, **options))
    source.open(spark)
    end = source.latest(source.initial(), None)
    mariadb.execute(
        "set time_zone = '+00:00'; alter table late.odd add column zoned timestamp not null default '2026-01-31 12:00:00',"
        " add column local datetime not null default '2026-01-31 12:00:00', add column gap time not null default '-838:59:59'"
    )
    context = SourceContext(spark, SchemaLog(), range=(source.initial(), end))
    with set_jvm_zone(spark, "Asia/Tokyo"):
        (events,) = source.events(context, spark.range(0))
        frame = events.load(spark, events.schema).selectExpr(
            "unix_seconds(value.row.zoned)", "string(value.row.local)", "value.row.gap"
        )
        assert [tuple(row) for row in frame.collect()] == [(1769860800, "2026-01-31 12:00:00", "-838:59:59")]


@pytest.mark.nightly
def test_row_without_a_cursor_does_not_stop_the_others(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    def lake(table: str) -> list[int]:
        return [row["id"] for row in pipelines.rows(pipeline, spark, f"shop.shop_{table}", key="id")]

    postgres.execute(
        f"create table {schema}.notes (id int primary key, updated_at timestamp); insert into {schema}.notes values (1)"
    )
    pipeline = make_pipeline(tmp_path, postgres, {**WITH_BOTH, "table.include.list": f"{schema}[.](orders|notes)"})
    for number in (3, 4):
        postgres.execute(f"insert into {schema}.orders (id) values ({number})")
        with pytest.raises(ConfigError, match="1 row has no value"):
            pipeline.run(spark)
    assert lake("orders") == [1, 2, 3, 4]
    postgres.execute(f"update {schema}.notes set updated_at = now() - interval '1 second'")
    pipeline.run(spark)
    assert (lake("orders"), lake("notes")) == ([1, 2, 3, 4], [1])


@pytest.mark.nightly
def test_new_table_without_the_column_does_not_stop_the_others(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    def lake(table: str) -> list[int]:
        return [row["id"] for row in pipelines.rows(pipeline, spark, f"shop.shop_{table}", key="id")]

    options = {"table.include.list": f"{schema}[.].*", "poll.interval.ms": 100, "table.poll.interval.ms": 100}
    pipeline = make_pipeline(tmp_path, postgres, {**WITH_BOTH, **options})
    pipeline.run(spark)
    with stop_at_end(pipeline.start(spark, "100 ms")) as query:
        postgres.execute(f"insert into {schema}.orders (id) values (3)")
        until_tables(query, lambda: (lake("orders"), [1, 2, 3]), "first rows")
        postgres.execute(f"create table {schema}.odd (id int primary key)")
        until_tables(query, lambda: ([t.table for t in query.status.tables if t.error], ["shop.shop_odd"]), "failure")
        postgres.execute(f"insert into {schema}.orders (id) values (4)")
        until_tables(query, lambda: (lake("orders"), [1, 2, 3, 4]), "later rows")


@pytest.mark.nightly
def test_change_within_the_second_of_the_cursor_is_read(tmp_path: Path, spark: SparkSession, mariadb: MariaDb) -> None:
    mariadb.execute(
        "drop database if exists clock; create database clock;"
        "create table clock.seconds (id int primary key, name text, changed datetime not null);"
        "insert into clock.seconds values (1, 'first', utc_timestamp())"
    )
    pipeline = make_pipeline(
        tmp_path,
        mariadb,
        {"mode": "timestamp", "timestamp.column.name": "changed", "catalog.pattern": "clock"},
        tables=[{"source": "shop_seconds", "target": "shop.seconds"}],
    )
    pipeline.run(spark)
    mariadb.execute("update clock.seconds set name = 'second'")
    mariadb.execute("do sleep(1.1)")
    pipeline.run(spark)
    assert [row["name"] for row in pipelines.rows(pipeline, spark, "shop.seconds", key="id")] == ["second"]


@pytest.mark.nightly
def test_table_that_is_dropped_during_a_run_does_not_stop_the_others(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    def lake(table: str) -> list[int]:
        return [row["id"] for row in pipelines.rows(pipeline, spark, f"shop.shop_{table}", key="id")]

    pipeline = make_pipeline(
        tmp_path, postgres, {**WITH_BOTH, "table.include.list": f"{schema}[.].*", "poll.interval.ms": 100}
    )
    pipeline.run(spark)
    with stop_at_end(pipeline.start(spark, "100 ms")) as query:
        postgres.execute(f"insert into {schema}.orders (id) values (3)")
        until_tables(query, lambda: (lake("orders"), [1, 2, 3]), "first rows")
        postgres.execute(f"drop table {schema}.items; insert into {schema}.orders (id) values (4)")
        until_tables(query, lambda: (lake("orders"), [1, 2, 3, 4]), "rows after the drop")
        until_tables(query, lambda: ([t.table for t in query.status.tables if t.error], ["shop.shop_items"]), "failure")
        postgres.execute(f"insert into {schema}.orders (id) values (5)")
        until_tables(query, lambda: (lake("orders"), [1, 2, 3, 4, 5]), "later rows")
    assert "topic shop_items: its table no longer exists" in caplog.text
    assert lake("items") == [7]


@pytest.mark.nightly
@pytest.mark.parametrize("sink", [*pipelines.TABLE_SINKS, "delta"])
def test_hard_deletes_are_found_by_renamed_keys_in_each_sink(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str, sink: str
) -> None:
    options = {"mode": "incrementing", "incrementing.column.name": "id", "reconcile": "1 ms"}
    source = {"jdbc": {**login(postgres), **options, "table.include.list": f"{schema}[.](orders|items)"}}
    pipeline = pipelines.pipeline(
        tmp_path,
        sink,
        source=source,
        tables=[{"source": "*", "target": "shop.{topic}", "key": ["id"]}],
        transforms=[{"rename": {"columns": {"id": "number"}}}, {"filter": {"condition": "number <> 5"}}],
    )
    postgres.execute(f"insert into {schema}.items select i, 'many' from generate_series(1, 6) i")
    pipeline.run(spark)
    postgres.execute(f"delete from {schema}.items where id in (2, 7); delete from {schema}.orders")
    pipeline.run(spark)
    assert [row["number"] for row in pipelines.rows(pipeline, spark, "shop.items", key="number")] == [1, 3, 4, 6]
    assert pipelines.rows(pipeline, spark, "shop.orders", key="number") == []
    postgres.execute(f"insert into {schema}.items values (9, 'new'); insert into {schema}.orders (id) values (9)")
    pipeline.run(spark)
    assert [row["number"] for row in pipelines.rows(pipeline, spark, "shop.items", key="number")] == [1, 3, 4, 6, 9]
    assert [row["number"] for row in pipelines.rows(pipeline, spark, "shop.orders", key="number")] == [9]


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
def test_comparison_reads_only_keys(spark: SparkSession, postgres: Postgres, schema: str) -> None:
    postgres.execute(f"insert into {schema}.items select i, 'many ' || i from generate_series(100, 499) i")
    options = {"mode": "bulk", "table.include.list": f"{schema}[.]items", "numPartitions": 4, "delete.missing": True}

    def load(**changed: Any) -> DataFrame:
        source = JdbcSource(login(postgres, **options, **changed))
        source.open(spark)
        context = SourceContext(spark, SchemaLog(), range=(source.initial(), source.latest(source.initial(), None)))
        (events,) = source.events(context, spark.range(0))
        assert events.load_current is not None
        return events.load_current(spark, events.schema).select("key.*")

    keys = load()
    assert keys.rdd.getNumPartitions() == 4
    assert "ReadSchema: struct<id:int>" in keys._jdf.queryExecution().toString()
    assert sorted(row["id"] for row in keys.collect()) == [7, *range(100, 500)]
    postgres.execute(f"alter table {schema}.items add column shelf int not null default 1")
    assert load(partitionColumn="shelf").rdd.getNumPartitions() == 1, "a row may move to another shelf meanwhile"


#: Procedure of a writer: a transaction of each kind, which commits up to three seconds after its time.
CHURN = """
    create table {schema}.done (writer int, transactions int);
    create procedure {schema}.churn(writer int, seconds int) language plpgsql as $$
    declare
        until_time timestamptz := clock_timestamp() + seconds * interval '1 second';
        key int;
        dice float;
        transactions int := 0;
    begin
        while clock_timestamp() < until_time loop
            key := 1000 + floor(random() * 2000)::int;
            dice := random();
            if dice < 0.2 then
                delete from {schema}.items where id = key;
            elsif dice < 0.3 then
                update {schema}.items set deleted = true, updated_at = clock_timestamp() where id = key;
            else
                insert into {schema}.items values (key, md5(random()::text), false, clock_timestamp())
                    on conflict (id) do update set name = excluded.name, deleted = false, updated_at = clock_timestamp();
            end if;
            perform pg_sleep(case when random() < 0.02 then random() * 3 else random() * 0.08 end);
            commit;
            transactions := transactions + 1;
        end loop;
        insert into {schema}.done values (writer, transactions);
    end $$
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_table_under_500_transactions_a_second_equals_the_database(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, schema: str
) -> None:
    """Inserts, updates, soft and hard deletes that commit late, from 40 connections for a minute."""
    seconds, writers, fixed = 60, 40, range(100, 300)

    def write(writer: int) -> None:
        connection = postgres.connect()
        connection.run(f"call {schema}.churn({writer}, {seconds})")
        connection.close()

    def database() -> list[tuple[Any, ...]]:
        return postgres.query(f"select id, name from {schema}.items where not deleted order by id")

    def lake() -> list[tuple[Any, ...]]:
        rows = [(row["id"], row["name"]) for row in pipelines.rows(pipeline, spark, "shop.shop_items", key="id")]
        assert {number for number, _ in rows} >= {*fixed}, "rows that no transaction changes are always readable"
        return rows

    postgres.execute(CHURN.format(schema=schema))
    postgres.execute(f"insert into {schema}.items select i, 'fixed' from generate_series({fixed[0]}, {fixed[-1]}) i")
    options = {**WITH_BOTH, "table.include.list": f"{schema}[.]items", "deleted.column.name": "deleted"}
    pauses = {"timestamp.window.interval.ms": 6000, "reconcile": "5 seconds"}
    pipeline = make_pipeline(tmp_path, postgres, {**options, **pauses})
    pipeline.run(spark)
    with ThreadPoolExecutor(writers) as pool, stop_at_end(pipeline.start(spark, "100 ms")) as query:
        written = [pool.submit(write, writer) for writer in range(writers)]
        until_tables(query, lambda: (all(one.done() for one in written) and bool(lake()), True), "writers")
        assert [one.exception() for one in written] == [None] * writers
        until_tables(query, lambda: (lake(), database()), "iceberg")
    ((transactions,),) = postgres.query(f"select sum(transactions) from {schema}.done")
    assert transactions > 300 * seconds
