"""Keys, operations and snapshot modes of PostgreSQL, MySQL and MariaDB: tables that follow each of them."""

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
#: The schema, or the database; topics and tables begin with it too.
RUN = f"d{uuid.uuid4().hex[:6]}"

TABLES = {
    # A key of two columns.
    "orders": "region varchar(10), num bigint, val text, primary key (region, num)",
    # Without a key: `message.key.columns` names one.
    "log": "a int, b int, note text",
    "people": "id int primary key, name varchar(50) not null, balance decimal(12,2)",
    "emptied": "id int primary key, name varchar(50) not null",
}
#: Shows that a connector without a snapshot has begun.
SEEN = "seen"
FIRST = """
insert into {s}.orders values ('eu', 1, 'a'), ('eu', 2, 'b'), ('us', 1, 'c'), ('us', 9007199254740993, null);
insert into {s}.log values (1, 1, 'one'), (1, 2, 'two'), (2, 1, 'é中😀');
insert into {s}.people values (1, 'Arp', 1.50), (2, 'Höch', -0.01), (3, '', null);
insert into {s}.emptied values (1, 'one'), (2, 'two')
"""
#: A transaction each.
CHANGES = (
    "update {s}.orders set val = 'A' where region = 'eu' and num = 1; insert into {s}.orders values ('ap', 7, 'new')",
    # A key that changes: half of it, all of it, and to one that was there before.
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
#: Between them a server begins a new file of its log.
ROTATE = "flush binary logs"
#: By what is behind the database in their names.
CONNECTORS: dict[str, dict[str, str]] = {
    "": {
        "message.key.columns": f"{RUN}.log:a,b",
        # Without it, Debezium keeps truncates to itself.
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": "2000",
        "table.exclude.list": f"{RUN}.{SEEN}",
    },
    "_once": {"snapshot.mode": "initial_only", "table.include.list": f"{RUN}.people"},
    "_later": {"snapshot.mode": "no_data", "table.include.list": f"{RUN}.people,{RUN}.{SEEN}"},
}


@dataclass(frozen=True)
class Lake:
    """A pipeline that runs, and the databases that its tables follow."""

    spark: SparkSession
    pipeline: Pipeline
    query: Query
    servers: Mapping[str, Postgres | MariaDb]

    def in_database(self, database: str, table: str) -> set[tuple[Any, ...]]:
        return set(self.servers[database].query(f"select * from {RUN}.{table}"))

    def in_table(self, prefix: str, table: str) -> set[tuple[Any, ...]]:
        """Nothing while there is no table."""
        try:
            found = [tuple(row) for row in self.pipeline.read(f"{RUN}_{prefix}.{table}", spark=self.spark).collect()]
        except ConfigError:
            return set()
        assert len(set(found)) == len(found)
        return set(found)

    def dead_letters(self, prefix: str, table: str) -> list[str]:
        """Their reasons; none while there are no dead letters at all."""
        try:
            letters = self.pipeline.read("dead_letters", spark=self.spark)
        except ConfigError:
            return []
        return [row["reason"] for row in letters.where(f"table = '{RUN}_{prefix}.{table}'").collect()]

    def until_same(self, have: Callable[[], Any], want: Any) -> None:
        until_tables(self.query, lambda: (have(), want), "a table of the lake")

    def follows(self, database: str, table: str) -> None:
        self.until_same(lambda: self.in_table(database, table), self.in_database(database, table))


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
    """All databases with three connectors each, after the first rows arrived and then were changed."""
    servers: dict[str, Postgres | MariaDb] = {"postgres": postgres, "mariadb": mariadb, "mysql": mysql}
    connectors = {
        f"{RUN}_{database}{suffix}": {
            **_base(server, f"{RUN}_{database}{suffix}", kafka, number),
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
            followed = Lake(spark, pipeline, query, servers)
            for database in DATABASES:
                _wait_for_the_connectors(followed, database)
            for server in servers.values():
                _change(server)
            yield followed
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
    server.execute(f"create table {RUN}.{SEEN} (id int primary key)")
    if postgres:  # without a key of its own, a table's updates are refused
        server.execute(f"alter table {RUN}.log replica identity full")
    server.execute(FIRST.format(s=RUN))


def _pipeline(folder: Path, kafka: Kafka, registry: SchemaRegistry) -> Pipeline:
    block = {
        "bootstrap.servers": kafka.bootstrap_servers,
        # All but the connectors' own memory of schemas, which is JSON whatever the converter.
        "subscribePattern": f"(__debezium-heartbeat[.])?{RUN}_(?!.*[.]schema-history).*",
        "kafka.metadata.max.age.ms": 500,
    }
    return pipelines.pipeline(
        folder,
        "iceberg",
        source={"kafka": block, "value": {"avro": {"registry": registry.ccompat_url}}},
        tables=[{"source": "*", "target": "{prefix}.{table}"}],
    )


def _wait_for_the_connectors(lake: Lake, database: str) -> None:
    for table in TABLES:
        lake.follows(database, table)
    people = lake.in_database(database, "people")
    lake.until_same(lambda: lake.in_table(f"{database}_once", "people"), people)
    numbers = count()

    def insert_and_check() -> bool:
        lake.servers[database].execute(f"insert into {RUN}.{SEEN} values ({next(numbers)})")
        return bool(lake.in_table(f"{database}_later", SEEN))

    lake.until_same(insert_and_check, True)


def _change(server: Postgres | MariaDb) -> None:
    for number, change in enumerate(CHANGES):
        sql = change.format(s=RUN)
        server.execute(sql if isinstance(server, Postgres) else f"begin; {sql}; commit")
        if isinstance(server, MariaDb) and number == len(CHANGES) // 2:
            server.execute(ROTATE)
    server.execute(f"truncate table {RUN}.emptied")
    server.execute(f"insert into {RUN}.emptied values (3, 'three')")


def _base(server: Postgres | MariaDb, prefix: str, kafka: Kafka, number: int) -> dict[str, str]:
    # Nine that look for changes every 10 ms leave no time for the rest.
    poll = {"poll.interval.ms": "100"}
    if isinstance(server, Postgres):
        return {**server.debezium(prefix), **poll, "schema.include.list": RUN}
    return {
        **server.debezium(prefix, kafka.bootstrap_servers),
        **poll,
        "database.include.list": RUN,
        # A server knows its readers by this number.
        "database.server.id": str(server.port + number),
        "schema.history.internal.store.only.captured.databases.ddl": "true",
    }


@pytest.mark.parametrize("table", ["orders", "log", "people"])
@pytest.mark.parametrize("database", DATABASES)
def test_keys_and_operations(lake: Lake, database: str, table: str) -> None:
    lake.follows(database, table)


@pytest.mark.parametrize("database", DATABASES)
def test_without_a_snapshot_only_what_changes_arrives(lake: Lake, database: str) -> None:
    changed = {row for row in lake.in_database(database, "people") if row[0] != 3}
    lake.until_same(lambda: lake.in_table(f"{database}_later", "people"), changed)


@pytest.mark.parametrize("database", DATABASES)
def test_a_snapshot_alone_stays_as_it_was(lake: Lake, database: str) -> None:
    lake.follows(database, "people")
    assert {row[:2] for row in lake.in_table(f"{database}_once", "people")} == {(1, "Arp"), (2, "Höch"), (3, "")}


@pytest.mark.parametrize("database", DATABASES)
def test_a_truncate_empties_the_table_and_what_follows_arrives(lake: Lake, database: str) -> None:
    assert lake.in_database(database, "emptied") == {(3, "three")}
    lake.follows(database, "emptied")
    assert lake.dead_letters(database, "emptied") == []


def test_topics_without_rows_become_no_tables(lake: Lake) -> None:
    for database in DATABASES:
        lake.follows(database, "people")
    tables = {table.table for batch in lake.query.recent_progress for table in batch.tables}
    assert tables <= {f"{RUN}_{d}{s}.{t}" for d in DATABASES for s in CONNECTORS for t in (*TABLES, SEEN)}
    notices = {topic for batch in lake.query.recent_progress for topic in batch.notices}
    assert {f"{RUN}_{d}.transaction" for d in DATABASES} <= notices
    assert {f"{RUN}_{d}" for d in ("mariadb", "mysql")} <= notices
