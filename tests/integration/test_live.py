"""A database that is written to, and tables that follow: PostgreSQL, Debezium, Kafka and a registry are real."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines

from headrace import Pipeline
from headrace.engine.query import Query
from headrace.testing.stack import Connect, Kafka, Postgres, Registry
from headrace_sources.avro import AvroFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["headrace.testing.stack.fixtures"]
pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.slow]

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


@pytest.mark.parametrize("wire", ["avro", "json"])
@pytest.mark.parametrize("sink", pipelines.TABLE_SINKS)
def test_tables_follow_a_database(
    tmp_path: Path,
    spark: SparkSession,
    postgres: Postgres,
    connect: Connect,
    kafka: Kafka,
    registry: Registry,
    wire: str,
    sink: str,
) -> None:
    name = f"live_{wire}_{sink}"
    table = f"{name}.artists"
    postgres.execute(ARTISTS.format(schema=name))
    converter = registry.avro_converter() if wire == "avro" else JSON
    connect.put(name, {**postgres.debezium(name), "schema.include.list": name, **converter})
    value: dict[str, Any] = {"avro": {"registry": registry.ccompat_url}} if wire == "avro" else {"json": {}}
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.].*"}
    pipeline = pipelines.pipeline(
        tmp_path,
        sink,
        source={"kafka": block, "value": value},
        tables=[{"source": f"{name}.*", "target": "{schema}.{table}"}],
    )
    query = pipeline.start(spark, "200 ms")
    try:
        follows(query, pipeline, spark, postgres, table)
        postgres.execute(
            # In its snapshot Debezium makes 44 out of 44 BC; in the stream it does not.
            f"insert into {table} (id, name, fee, born) values (4, 'Ernst', 1, '0044-03-15 BC'); update {table} set fee = fee + 1 where id = 1;"
            f"delete from {table} where id = 2; update {table} set id = 30 where id = 3"
        )
        follows(query, pipeline, spark, postgres, table)
        postgres.execute(f"alter table {table} add column died date default '1966-06-07'")
        postgres.execute(
            f"update {table} set died = '1976-04-01' where id = 4; update {table} set name = 'Hans' where id = 1"
        )
        follows(query, pipeline, spark, postgres, table, died="id in (1, 4)")
    finally:
        query.stop()
        connect.delete(name)


@pytest.mark.parametrize("path", ["/apis/ccompat/v7", "/apis/registry/v2", "/apis/registry/v3"])
def test_a_registry_that_answers(registry: Registry, spark: SparkSession, path: str) -> None:
    address = registry.ccompat_url.replace("/apis/ccompat/v7", path)
    [(what, found)] = AvroFormat(registry=address).connect(spark)
    assert what == f"registry {address}"
    assert re.fullmatch(r"answers, \d+ (subjects|artifacts)", found)


def follows(
    query: Query, pipeline: Pipeline, spark: SparkSession, postgres: Postgres, table: str, *, died: str = ""
) -> None:
    """Waits until the table has what the database has; shows both when it never does."""
    deadline = time.monotonic() + 240
    while True:
        assert query.is_active, query.exception
        have, want = lake(pipeline, spark, table), database(postgres, table)
        if died:
            want_died = postgres.query(f"select id, died::text from {table} where {died} order by id")
            frame = pipeline.read(table, spark=spark)
            if have == want and "died" in frame.columns:
                found = frame.where(died).orderBy("id").selectExpr("id", "cast(died as string)").collect()
                if [tuple(row) for row in found] == want_died:
                    return
        elif have == want:
            return
        if time.monotonic() > deadline:
            assert have == want, [query.status, *query.recent_progress]
            raise AssertionError("the new column never came")
        time.sleep(0.3)


def database(postgres: Postgres, table: str) -> list[tuple[Any, ...]]:
    """The rows, printed by PostgreSQL."""
    return postgres.query(
        "select id, name, extract(epoch from born)::bigint / 86400, fee::text, "
        "(extract(epoch from seen) * 1000000)::bigint, (extract(epoch from at) * 1000000)::bigint, encode(raw, 'hex'), "
        f"ref::text, about::text, array_to_string(tags, ',', 'null') from {table} order by id"
    )


def lake(pipeline: Pipeline, spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """The same, printed by Spark; nothing while there is no table."""
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
