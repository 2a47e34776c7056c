"""Keys, operations and snapshot modes of PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.waiting import until_tables

from headrace import ConfigError, Pipeline
from headrace.engine.run.query import Query
from headrace_stack import Connect, Kafka, MariaDb, Postgres, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

DATABASES = ("postgres", "mariadb", "mysql")
#: Name of the schema or database, and prefix of topics and tables.
RUN = f"d{uuid.uuid4().hex[:6]}"

TABLES = {
    # A key of two columns.
    "orders": "region varchar(10), num bigint, val text, primary key (region, num)",
    # Without a key: `message.key.columns` names one.
    "log": "a int, b int, note text",
    "people": "id int primary key, name varchar(50) not null, balance decimal(12,2)",
    "emptied": "id int primary key, name varchar(50) not null",
}
#: Table whose rows show that a connector without a snapshot has started.
PROBE = "seen"
INITIAL_ROWS = """
insert into {s}.orders values ('eu', 1, 'a'), ('eu', 2, 'b'), ('us', 1, 'c'), ('us', 9007199254740993, null);
insert into {s}.log values (1, 1, 'one'), (1, 2, 'two'), (2, 1, 'é中😀');
insert into {s}.people values (1, 'Arp', 1.50), (2, 'Höch', -0.01), (3, '', null);
insert into {s}.emptied values (1, 'one'), (2, 'two')
"""
#: One transaction per item.
CHANGES = (
    "update {s}.orders set val = 'A' where region = 'eu' and num = 1; insert into {s}.orders values ('ap', 7, 'new')",
    # Key changes: one column, both columns, and a change to a key that existed before.
    "update {s}.orders set num = 20 where region = 'eu' and num = 2",
    "update {s}.orders set region = 'na', num = 3 where region = 'us' and num = 1",
    "delete from {s}.orders where region = 'ap'; update {s}.orders set region = 'ap', num = 7 where region = 'na'",
    "insert into {s}.log values (3, 1, 'three'); update {s}.log set note = 'ONE' where a = 1 and b = 1",
    "update {s}.log set b = 9 where a = 1 and b = 2; delete from {s}.log where a = 2",
    "update {s}.people set balance = balance + 1 where id = 1; update {s}.people set balance = balance + 1 where id = 1",
    "delete from {s}.people where id = 2",
    "insert into {s}.people values (2, 'Hannah', 2), (4, 'Ernst', 99999999.99)",
    "update {s}.people set name = 'lost' where id = 4; update {s}.people set name = 'Max' where id = 4",
)
#: Statement that starts a new binlog file. It runs in the middle of the changes.
ROTATE = "flush binary logs"
#: Options by suffix of the connector name.
CONNECTORS: dict[str, dict[str, str]] = {
    "": {
        "message.key.columns": f"{RUN}.log:a,b",
        # By default, Debezium skips truncates.
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": "2000",
        "table.exclude.list": f"{RUN}.{PROBE}",
    },
    "_once": {"snapshot.mode": "initial_only", "table.include.list": f"{RUN}.people"},
    "_later": {"snapshot.mode": "no_data", "table.include.list": f"{RUN}.people,{RUN}.{PROBE}"},
}


@dataclass(frozen=True)
class Lake:
    """A running pipeline and the databases that its tables follow."""

    spark: SparkSession
    pipeline: Pipeline
    query: Query
    servers: Mapping[str, Postgres | MariaDb]

    def in_database(self, database: str, table: str) -> set[tuple[Any, ...]]:
        return set(self.servers[database].query(f"select * from {RUN}.{table}"))

    def in_table(self, prefix: str, table: str) -> set[tuple[Any, ...]]:
        """Return the rows of a table, or no rows if it does not exist yet."""
        try:
            found = [tuple(row) for row in self.pipeline.read(f"{RUN}_{prefix}.{table}", spark=self.spark).collect()]
        except ConfigError:
            return set()
        assert len(set(found)) == len(found)
        return set(found)

    def dead_letters(self, prefix: str, table: str) -> list[str]:
        """Return the reasons of the dead letters of a table; empty if the pipeline has no dead letters."""
        try:
            dead_letters = self.pipeline.read("dead_letters", spark=self.spark)
        except ConfigError:
            return []
        return [row["reason"] for row in dead_letters.where(f"table = '{RUN}_{prefix}.{table}'").collect()]

    def wait_for(self, actual: Callable[[], Any], expected: Any) -> None:
        until_tables(self.query, lambda: (actual(), expected), "a table of the lake")

    def wait_until_equal(self, database: str, table: str) -> None:
        self.wait_for(lambda: self.in_table(database, table), self.in_database(database, table))


@pytest.fixture(scope="module")
def lake(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    postgres: Postgres,
    mariadb: MariaDb,
    mysql: MariaDb,
    connect: Connect,
    kafka: Kafka,
    registry: SchemaRegistry,
) -> Iterator[Lake]:
    """Start three connectors for each database, wait for the initial rows, and apply the changes."""
    servers: dict[str, Postgres | MariaDb] = {"postgres": postgres, "mariadb": mariadb, "mysql": mysql}
    connectors = {
        f"{RUN}_{database}{suffix}": {
            **_connector_config(server, f"{RUN}_{database}{suffix}", kafka, number),
            **registry.avro_converter(),
            **options,
        }
        for database, server in servers.items()
        for number, (suffix, options) in enumerate(CONNECTORS.items())
    }
    pipeline = _pipeline(tmp_path_factory.mktemp("dialects"), kafka, registry)
    try:
        for server in servers.values():
            _prepare(server)
        for name, config in connectors.items():
            connect.put(name, config)
        query = pipeline.start(spark, "3 seconds")
        try:
            lake = Lake(spark, pipeline, query, servers)
            for database in DATABASES:
                _wait_for_connectors(lake, database)
            for server in servers.values():
                _change(server)
            yield lake
        finally:
            query.stop()
    finally:
        for name in connectors:
            connect.delete(name)
        postgres.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
            f"where slot_name like '{RUN}%' and not active"
        )


def _prepare(server: Postgres | MariaDb) -> None:
    postgres = isinstance(server, Postgres)
    server.execute(f"create {'schema' if postgres else 'database'} {RUN}{'' if postgres else ' character set utf8mb4'}")
    server.execute(";".join(f"create table {RUN}.{table} ({columns})" for table, columns in TABLES.items()))
    server.execute(f"create table {RUN}.{PROBE} (id int primary key)")
    if postgres:  # PostgreSQL rejects updates of a published table without a key
        server.execute(f"alter table {RUN}.log replica identity full")
    server.execute(INITIAL_ROWS.format(s=RUN))


def _pipeline(folder: Path, kafka: Kafka, registry: SchemaRegistry) -> Pipeline:
    block = {
        "bootstrap.servers": kafka.bootstrap_servers,
        # All topics except the schema history of the connectors, which is always JSON.
        "subscribePattern": f"(__debezium-heartbeat[.])?{RUN}_(?!.*[.]schema-history).*",
        "kafka.metadata.max.age.ms": 500,
    }
    return pipelines.pipeline(
        folder,
        "iceberg",
        source={"kafka": block, "value": {"avro": {"registry": registry.ccompat_url}}},
        tables=[{"source": "*", "target": "{prefix}.{table}"}],
    )


def _wait_for_connectors(lake: Lake, database: str) -> None:
    for table in TABLES:
        lake.wait_until_equal(database, table)
    people = lake.in_database(database, "people")
    lake.wait_for(lambda: lake.in_table(f"{database}_once", "people"), people)
    numbers = count()

    def insert_and_check() -> bool:
        lake.servers[database].execute(f"insert into {RUN}.{PROBE} values ({next(numbers)})")
        return bool(lake.in_table(f"{database}_later", PROBE))

    lake.wait_for(insert_and_check, True)


def _change(server: Postgres | MariaDb) -> None:
    for number, change in enumerate(CHANGES):
        sql = change.format(s=RUN)
        server.execute(sql if isinstance(server, Postgres) else f"begin; {sql}; commit")
        if isinstance(server, MariaDb) and number == len(CHANGES) // 2:
            server.execute(ROTATE)
    server.execute(f"truncate table {RUN}.emptied")
    server.execute(f"insert into {RUN}.emptied values (3, 'three')")


def _connector_config(server: Postgres | MariaDb, prefix: str, kafka: Kafka, number: int) -> dict[str, str]:
    # Nine connectors with a poll interval of 10 ms would use all CPU time.
    poll = {"poll.interval.ms": "100"}
    if isinstance(server, Postgres):
        return {**server.debezium(prefix), **poll, "schema.include.list": RUN}
    return {
        **server.debezium(prefix, kafka.bootstrap_servers),
        **poll,
        "database.include.list": RUN,
        # A server identifies its replication clients by this number.
        "database.server.id": str(server.port + number),
        "schema.history.internal.store.only.captured.databases.ddl": "true",
    }


@pytest.mark.parametrize("table", ["orders", "log", "people"])
@pytest.mark.parametrize("database", DATABASES)
def test_keys_and_operations(lake: Lake, database: str, table: str) -> None:
    lake.wait_until_equal(database, table)


@pytest.mark.parametrize("database", DATABASES)
def test_only_changed_rows_arrive_without_snapshot(lake: Lake, database: str) -> None:
    changed = {row for row in lake.in_database(database, "people") if row[0] != 3}
    lake.wait_for(lambda: lake.in_table(f"{database}_later", "people"), changed)


@pytest.mark.parametrize("database", DATABASES)
def test_table_of_snapshot_only_connector_does_not_change(lake: Lake, database: str) -> None:
    lake.wait_until_equal(database, "people")
    assert {row[:2] for row in lake.in_table(f"{database}_once", "people")} == {(1, "Arp"), (2, "Höch"), (3, "")}


@pytest.mark.parametrize("database", DATABASES)
def test_truncate_empties_table_and_later_rows_arrive(lake: Lake, database: str) -> None:
    assert lake.in_database(database, "emptied") == {(3, "three")}
    lake.wait_until_equal(database, "emptied")
    assert lake.dead_letters(database, "emptied") == []


def test_topics_without_rows_create_no_tables(lake: Lake) -> None:
    for database in DATABASES:
        lake.wait_until_equal(database, "people")
    tables = {table.table for batch in lake.query.recent_progress for table in batch.tables}
    assert tables <= {f"{RUN}_{d}{s}.{t}" for d in DATABASES for s in CONNECTORS for t in (*TABLES, PROBE)}
    notices = {topic for batch in lake.query.recent_progress for topic in batch.notices}
    assert {f"{RUN}_{d}.transaction" for d in DATABASES} <= notices
    assert {f"{RUN}_{d}" for d in ("mariadb", "mysql")} <= notices
