"""Databases with many tables, which one pipeline selects by a pattern and keeps equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import databases, pipelines
from tests.support.databases import Printed, Query, sort_rows
from tests.support.waiting import until_tables

from headrace import Pipeline
from headrace.engine.run.query import Query as Running
from headrace_demo.live import pagila
from headrace_stack import Connect, Kafka, MariaDb, Postgres, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.spark,
    pytest.mark.dist,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.one_spark,
]

#: Seconds in which twenty tables must equal the database. An idle machine needs one minute.
TIMEOUT_SECONDS = 800
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
    # By default, the converter replaces null with the default of the column.
    "value.converter.replace.null.with.default": "false",
}
#: Tables of Pagila with features that the other databases lack: partitions, arrays, enums and tsvectors, and keys of two
#: columns. test_live_command.py covers all 15 tables.
PAGILA_TABLES = ("film", "film_actor", "payment", "staff")
#: Inserts, updates and deletes in tables of both schemas. They cover a key of two columns, a payment that moves to another
#: partition, a statement that changes hundreds of rows, and columns of arrays, enums and tsvectors.
POSTGRES_CHANGES = """
insert into public.rental (rental_id, rental_date, inventory_id, customer_id, staff_id)
  values (20001, '2020-07-01 10:00+00', 1, 1, 1);
insert into public.payment values (40001, 1, 1, 20001, 2.99, '2020-06-30 10:01+00');
update public.payment set payment_date = '2020-07-02 10:01+00', amount = -3.5 where payment_id = 40001;
delete from public.payment where customer_id = 7;
delete from public.film_actor where film_id = 1;
update public.film set special_features = '{"a, b", null}', rating = 'NC-17', description = 'Ünïcödé 😀' where film_id = 2;
insert into public.film (film_id, title, language_id) values (1001, 'NEW', 1);
update public.staff set picture = '\\xdeadbeef' where staff_id = 2;
delete from tickit.sales where salesid % 7 = 0;
update tickit.listing set totalprice = 999999.99 where listid = 3;
update tickit.users set likejazz = true, phone = '555' where userid = 2;
insert into tickit.venue values (99, null, null, 'NY', null);
update tickit.sales set salesid = 9000 where salesid = 1;
"""
MARIADB_CHANGES = """
insert into sakila.film (film_id, title, description, language_id) values (1001, 'NEW', 'Ünïcödé', 1);
update sakila.film set title = 'OLD', special_features = 'Trailers,Commentaries', rating = null where film_id = 2;
delete from sakila.payment where customer_id = 7;
update sakila.rental set return_date = null where customer_id = 8;
delete from sakila.film_actor where film_id = 1;
update sakila.customer set email = null, active = 0 where customer_id < 5;
update sakila.staff set picture = x'deadbeef' where staff_id = 2;
insert into sakila.category (name) values ('New');
insert into inventory.orders values (default, '2016-03-01', 1001, 3, 101);
update inventory.products set weight = 2.5, description = null where id = 101;
delete from inventory.products_on_hand where product_id = 109;
update inventory.customers set email = 'sally@example.org' where id = 1001;
"""


@contextmanager
def shop(postgres: Postgres) -> Iterator[Query]:
    """Create a database with Pagila in ``public`` and TICKIT in ``tickit``; yield a function that queries it."""
    postgres.execute("create database shop")
    with closing(postgres.connect("shop")) as connection:
        pagila.load(connection)
        connection.run(databases.TICKIT)
        connection.run("set search_path to public")
        yield lambda sql: list(map(tuple, connection.run(sql) or ()))


def test_pagila_and_tickit_in_iceberg(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, connect: Connect, kafka: Kafka, registry: SchemaRegistry
) -> None:
    with shop(postgres) as query:
        tables = {
            f"shop_{schema}.{table.name}": (f"{schema}.{table.name}", table)
            for schema in ("public", "tickit")
            for table in databases.describe_postgres_tables(query, schema)
            if schema == "tickit" or table.name in PAGILA_TABLES
        }
        assert len(tables) == 11
        settings = {
            "database.dbname": "shop",
            "publish.via.partition.root": "true",
            "table.include.list": f"tickit[.].*,public[.]({'|'.join(PAGILA_TABLES)})",
        }
        connect.put("shop", {**postgres.debezium("shop"), **registry.avro_converter(), **settings})
        pipeline = make_pipeline(tmp_path, "iceberg", kafka, "shop[.].*", {"avro": {"registry": registry.ccompat_url}})
        try:
            assert_tables_follow(pipeline, spark, query, tables, POSTGRES_CHANGES)
        finally:
            connect.delete("shop")


# Hudi does not support Spark 4.
if "hudi" in pipelines.TABLE_SINKS:

    def test_sakila_and_inventory_in_hudi(
        tmp_path: Path, spark: SparkSession, mariadb: MariaDb, connect: Connect, kafka: Kafka
    ) -> None:
        mariadb.execute(databases.sakila())
        mariadb.execute(databases.inventory())
        tables = {
            f"rental_{schema}.{table.name}": (f"{schema}.{table.name}", table)
            for schema in ("sakila", "inventory")
            for table in databases.describe_mariadb_tables(mariadb.query, schema)
        }
        assert len(tables) == 20
        settings = {"database.include.list": "sakila,inventory", **JSON}
        connect.put("rental", {**mariadb.debezium("rental", kafka.bootstrap_servers), **settings})
        pipeline = make_pipeline(tmp_path, "hudi", kafka, "rental[.].*[.].*", {"json": {}})
        try:
            assert_tables_follow(pipeline, spark, mariadb.query, tables, MARIADB_CHANGES)
        finally:
            connect.delete("rental")


def make_pipeline(folder: Path, sink: str, kafka: Kafka, topics: str, value: dict[str, Any]) -> Pipeline:
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": topics}
    return pipelines.pipeline(
        folder,
        sink,
        source={"kafka": block, "value": value},
        tables=[{"source": "*", "target": "{db}_{schema}.{table}"}],
    )


def assert_tables_follow(
    pipeline: Pipeline, spark: SparkSession, query: Query, tables: dict[str, tuple[str, Printed]], changes: str
) -> None:
    """Assert that every table equals the database after the snapshot and again after the changes."""
    # Twenty tables change together. The interval joins the changes of several statements into one batch.
    running = pipeline.start(spark, "5 seconds")
    try:
        wait_until_equal(running, pipeline, spark, query, tables)
        for change in filter(None, map(str.strip, changes.split(";\n"))):
            query(change)
        wait_until_equal(running, pipeline, spark, query, tables)
    finally:
        running.stop()
    assert sum(table.dead_letters for batch in running.recent_progress for table in batch.tables) == 0


def wait_until_equal(
    running: Running, pipeline: Pipeline, spark: SparkSession, query: Query, tables: dict[str, tuple[str, Printed]]
) -> None:
    """Wait for each table in turn. On a timeout, report the row counts and the first row that differs."""
    for name, (source, printed) in tables.items():

        def compare(name: str = name, source: str = source, printed: Printed = printed) -> tuple[Any, Any]:
            expected = sort_rows(query(f"select {', '.join(printed.database)} from {source}"))
            actual = rows(pipeline, spark, name, printed)
            differs = (pair for pair in zip(actual, expected, strict=False) if pair[0] != pair[1])
            first_actual, first_expected = next(differs, (None, None))
            return (len(actual), first_actual), (len(expected), first_expected)

        until_tables(running, compare, name, TIMEOUT_SECONDS)


def rows(pipeline: Pipeline, spark: SparkSession, table: str, printed: Printed) -> list[tuple[Any, ...]]:
    """Return the rows of a table as Spark prints them, or no rows if the table does not exist yet."""
    from headrace import ConfigError

    try:
        frame = pipeline.read(table, spark=spark)
    except ConfigError:
        return []
    return sort_rows(frame.selectExpr(*printed.lake).collect())
