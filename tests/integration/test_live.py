"""Tables that follow a database, with real servers: PostgreSQL, Debezium, Kafka and a schema registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.tiers import nightly_after
from tests.support.waiting import until_tables

from headrace import Pipeline
from headrace.engine.run.query import Query
from headrace_sources.formats.avro import AvroFormat
from headrace_stack import Connect, Kafka, Postgres, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]
#: Wire formats and sinks; each occurs once. Hudi does not support Spark 4.
WIRE_FORMATS_AND_SINKS = [
    ("avro", "iceberg"),
    ("json", "hudi"),
    ("registered", "iceberg"),
]

ARTISTS = """
create schema {schema};
create table {schema}.artists (
  id int primary key, name text not null, born date, fee numeric(12,2), seen timestamptz, at timestamp, raw bytea,
  ref uuid, about jsonb, tags text[]
);
insert into {schema}.artists values
  (1, 'Arp', '1886-09-16', 12.50, '2026-01-02 03:04:05.678901+02', '2026-01-02 03:04:05.678901', '\\xdeadbeef',
   '6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a', '{{"a": [1, 2]}}', '{{"x", null}}'),
  (2, 'é中😀', '0001-01-01', -99999999.99, null, '0001-01-01', '', null, 'null', '{{}}'),
  (3, '', null, null, 'epoch', null, null, null, null, null);
"""
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
}


@pytest.mark.parametrize(("wire", "sink"), nightly_after(1, WIRE_FORMATS_AND_SINKS))
def test_tables_follow_a_database(
    tmp_path: Path,
    spark: SparkSession,
    postgres: Postgres,
    connect: Connect,
    kafka: Kafka,
    registry: SchemaRegistry,
    wire: str,
    sink: str,
) -> None:
    name = f"live_{wire}_{sink}"
    table = f"{name}.artists"
    postgres.execute(ARTISTS.format(schema=name))
    converter, value = make_converter_and_format(wire, registry)
    connect.put(name, {**postgres.debezium(name), "schema.include.list": name, **converter})
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.].*"}
    pipeline = pipelines.pipeline(
        tmp_path,
        sink,
        source={"kafka": block, "value": value},
        tables=[{"source": f"{name}.*", "target": "{schema}.{table}"}],
    )
    query = pipeline.start(spark, "200 ms")
    try:
        wait_until_equal(query, pipeline, spark, postgres, table)
        postgres.execute(
            # Debezium changes 44 BC to the year 44 in a snapshot, but not in the stream.
            f"insert into {table} (id, name, fee, born) values (4, 'Ernst', 1, '0044-03-15 BC'); update {table} set fee = fee + 1 where id = 1;"
            f"delete from {table} where id = 2; update {table} set id = 30 where id = 3"
        )
        wait_until_equal(query, pipeline, spark, postgres, table)
        postgres.execute(f"alter table {table} add column died date default '1966-06-07'")
        postgres.execute(
            f"update {table} set died = '1976-04-01' where id = 4; update {table} set name = 'Hans' where id = 1"
        )
        wait_until_equal(query, pipeline, spark, postgres, table, died="id in (1, 4)")
    finally:
        query.stop()
        connect.delete(name)


DOCUMENTS = """
create extension if not exists hstore;
create schema {schema};
create table {schema}.documents (
  id text primary key, rev int, body text, raw bytea, numbers int[], large bigint[], words text[], refs uuid[],
  days date[], about jsonb, pairs hstore
);
"""
#: A value for every column that PostgreSQL can store out of line (TOAST), large enough that it does.
LARGE_VALUES = (
    "repeat('0123456789', 1000), decode(repeat('deadbeef', 2000), 'hex'), array(select generate_series(1, 5000)), "
    "array(select generate_series(1, 5000)::bigint), array(select 'word ' || generate_series(1, 2000)), "
    "array(select md5(generate_series(1, 1000)::text)::uuid), array(select '2020-01-01'::date + generate_series(1, 3000)), "
    "jsonb_build_object('text', repeat('x', 9000)), hstore(repeat('k', 3000), repeat('v', 3000))"
)
LARGE_COLUMNS = ("body", "raw", "numbers", "large", "words", "refs", "days", "about", "pairs")


# tests/plugins/sources/dialects/test_unavailable_values.py covers the placeholder of each wire format, and the kit covers the sinks.
@pytest.mark.nightly
def test_update_keeps_unchanged_large_values(
    tmp_path: Path,
    spark: SparkSession,
    postgres: Postgres,
    connect: Connect,
    kafka: Kafka,
    registry: SchemaRegistry,
) -> None:
    name = "toast"
    table = f"{name}.documents"
    postgres.execute(DOCUMENTS.format(schema=name))
    for column in LARGE_COLUMNS:
        postgres.execute(f"alter table {table} alter {column} set storage external")
    postgres.execute(f"insert into {table} select n::text, 1, {LARGE_VALUES} from generate_series(1, 3) n")
    converter, value = make_converter_and_format("avro", registry)
    connect.put(name, {**postgres.debezium(name), "schema.include.list": name, **converter})
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.].*"}
    pipeline = pipelines.pipeline(
        tmp_path,
        "iceberg",
        source={"kafka": block, "value": value},
        tables=[{"source": f"{name}.*", "target": "{schema}.{table}"}],
    )
    query = pipeline.start(spark, "200 ms")

    def compare() -> tuple[Any, Any]:
        sizes = [
            f"octet_length({c}::text)" if c in ("body", "raw") else f"cardinality({c})" for c in LARGE_COLUMNS[:-2]
        ]
        expected = postgres.query(
            f"select id, rev, {', '.join(sizes)}, octet_length(about->>'text'), 'true' from {table} order by id"
        )
        expected = [
            (*row[:3], row[3] // 2 - 1, *row[4:]) for row in expected
        ]  # PostgreSQL prints a bytea as \\x and two digits per byte
        return read_documents(pipeline, spark, table), expected

    def wait_for_documents() -> None:
        until_tables(query, compare, table)

    try:
        wait_for_documents()
        postgres.execute(f"update {table} set rev = 2 where id < '3'")
        wait_for_documents()
        # A transaction that changes a large column and then leaves it unchanged, for two columns.
        postgres.execute(
            f"begin; update {table} set body = 'short', rev = 3 where id = '1'; update {table} set rev = 4 where id = '1';"
            f"update {table} set numbers = '{{1,2}}' where id = '2'; update {table} set rev = 5; commit"
        )
        wait_for_documents()
        # A new column can be unavailable too, and the other columns are.
        postgres.execute(f"alter table {table} add note text; update {table} set note = 'new', rev = 6 where id > '1'")
        wait_for_documents()
        # The key changes, and in another row it changes twice in one transaction.
        postgres.execute(f"update {table} set id = '4' where id = '3'")
        postgres.execute(
            f"begin; update {table} set id = '5', rev = 7 where id = '2'; update {table} set id = '6' where id = '5'; commit"
        )
        wait_for_documents()
    finally:
        query.stop()
        connect.delete(name)


def read_documents(pipeline: Pipeline, spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """Return the sizes of the values in the documents, or no rows if the table does not exist yet."""
    from headrace import ConfigError

    sizes = [f"octet_length({c})" if c in ("body", "raw") else f"size({c})" for c in LARGE_COLUMNS[:-2]]
    pairs = "cast(cast(pairs as string) like '%kkkk%vvvv%' as string)"
    try:
        frame = pipeline.read(table, spark=spark)
    except ConfigError:
        return []
    text = "octet_length(get_json_object(about, '$.text'))"
    return [tuple(row) for row in frame.orderBy("id").selectExpr("id", "rev", *sizes, text, pairs).collect()]


def make_converter_and_format(wire: str, registry: SchemaRegistry) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the converter options of the connector and the matching format of the source."""
    if wire == "avro":
        return registry.avro_converter(), {"avro": {"registry": registry.ccompat_url}}
    if wire == "registered":
        return registry.json_converter(), {"json": {"registry": f"{registry.url}/apis/registry/v2"}}
    return JSON, {"json": {}}


@pytest.mark.nightly
@pytest.mark.parametrize("path", ["/apis/ccompat/v7", "/apis/registry/v2", "/apis/registry/v3"])
def test_format_connects_to_each_registry_api(registry: SchemaRegistry, spark: SparkSession, path: str) -> None:
    address = registry.ccompat_url.replace("/apis/ccompat/v7", path)
    [(what, found)] = AvroFormat(registry=address).connect(spark)
    assert what == f"registry {address}"
    assert re.fullmatch(r"responds, \d+ (subjects|artifacts)", found)


def wait_until_equal(
    query: Query, pipeline: Pipeline, spark: SparkSession, postgres: Postgres, table: str, *, died: str = ""
) -> None:
    """Wait until the table equals the database. ``died`` selects rows whose dates of death are compared too."""

    def compare() -> tuple[Any, Any]:
        actual, expected = read_table(pipeline, spark, table), read_database(postgres, table)
        if died and actual == expected:
            frame = pipeline.read(table, spark=spark)
            found = (
                frame.where(died).orderBy("id").selectExpr("id", "cast(died as string)")
                if "died" in frame.columns
                else None
            )
            actual = [tuple(row) for row in found.collect()] if found is not None else []
            expected = postgres.query(f"select id, died::text from {table} where {died} order by id")
        return actual, expected

    until_tables(query, compare, table)


def read_database(postgres: Postgres, table: str) -> list[tuple[Any, ...]]:
    """Return the rows as PostgreSQL prints them."""
    return postgres.query(
        "select id, name, extract(epoch from born)::bigint / 86400, fee::text, "
        "(extract(epoch from seen) * 1000000)::bigint, (extract(epoch from at) * 1000000)::bigint, encode(raw, 'hex'), "
        f"ref::text, about::text, array_to_string(tags, ',', 'null') from {table} order by id"
    )


def read_table(pipeline: Pipeline, spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """Return the rows as Spark prints them, or no rows if the table does not exist yet."""
    from headrace import ConfigError

    try:
        frame = pipeline.read(table, spark=spark)
    except ConfigError:
        return []
    return [
        tuple(row)
        for row in frame.orderBy("id")
        .selectExpr(
            "id",
            "name",
            "cast(unix_date(born) as bigint)",
            "cast(fee as string)",
            "unix_micros(seen)",
            "unix_micros(cast(at as timestamp))",
            "lower(hex(raw))",
            "ref",
            "about",
            "array_join(tags, ',', 'null')",
        )
        .collect()
    ]
