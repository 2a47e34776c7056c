"""Every type of PostgreSQL, MySQL and MariaDB in each mode of Debezium.

The test compares the values of the table with the values that the database prints.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines, types_mysql, types_postgres
from tests.support.spark_conf import compile_plans
from tests.support.types import Modes, TypeTable, same

from headrace_stack import Connect, Kafka, MariaDb, Postgres, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.spark,
    pytest.mark.dist,
    pytest.mark.slow,
    pytest.mark.one_spark,
    # The first test starts all connectors and compiles the plans of every type.
    pytest.mark.timeout(1800),
]

#: First row number of the snapshot and of the stream.
PHASES = {"snapshot": 0, "stream": 100}
OPTIONS = {
    "decimal": "decimal.handling.mode",
    "time": "time.precision.mode",
    "binary": "binary.handling.mode",
    "hstore": "hstore.handling.mode",
    "interval": "interval.handling.mode",
    "unsigned": "bigint.unsigned.handling.mode",
}
JSON = "org.apache.kafka.connect.json.JsonConverter"


def _modes(*names: str) -> Any:
    return lambda *values: dict(zip(("wire", *names), values, strict=True))


_postgres = _modes("decimal", "time", "binary", "hstore", "interval")
_mysql = _modes("decimal", "time", "binary", "unsigned")
COMBINATIONS: dict[str, list[dict[str, str]]] = {
    "postgres": [
        _postgres("avro", "precise", "adaptive", "bytes", "json", "numeric"),
        _postgres("json", "string", "adaptive_time_microseconds", "base64", "map", "string"),
        _postgres("bare", "string", "isostring", "hex", "json", "string"),
        _postgres("avro", "double", "connect", "base64-url-safe", "map", "string"),
        _postgres("json", "precise", "microseconds", "bytes", "json", "numeric"),
        _postgres("avro", "string", "nanoseconds", "hex", "json", "numeric"),
        _postgres("json", "double", "isostring", "base64", "map", "string"),
    ],
    "mariadb": [
        _mysql("avro", "precise", "adaptive_time_microseconds", "bytes", "long"),
        _mysql("json", "string", "connect", "base64", "precise"),
        _mysql("bare", "string", "isostring", "hex", "long"),
        _mysql("json", "double", "nanoseconds", "base64-url-safe", "long"),
        _mysql("avro", "precise", "microseconds", "hex", "precise"),
    ],
    "mysql": [
        _mysql("json", "precise", "adaptive_time_microseconds", "bytes", "precise"),
        _mysql("avro", "string", "isostring", "base64", "long"),
    ],
}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Compile the plans of every type, as sessions of users do."""
    with compile_plans(spark):
        yield spark


@dataclass(frozen=True, eq=False)
class Feed:
    """Events of one connector for the table of all types of a database."""

    database: str
    prefix: str
    modes: Modes

    @property
    def types(self) -> TypeTable:
        return {"postgres": types_postgres.TYPES, "mariadb": types_mysql.MARIADB, "mysql": types_mysql.MYSQL}[
            self.database
        ]

    @property
    def topic(self) -> str:
        return f"{self.prefix}.{SCHEMA}.all_types"

    def __str__(self) -> str:
        return f"{self.database}-{'-'.join(self.modes.values())}"


RUN = uuid.uuid4().hex[:6]
SCHEMA = f"types_{RUN}"
FEEDS = [
    Feed(database, f"t{RUN}_{database}_{number}", modes)
    for database, combinations in COMBINATIONS.items()
    for number, modes in enumerate(combinations)
]


def converter(wire: str, registry: SchemaRegistry) -> Mapping[str, str]:
    if wire == "avro":
        return registry.avro_converter()
    halves = ("key", "value")
    schemas = str(wire == "json").lower()
    return {
        **{f"{half}.converter": JSON for half in halves},
        **{f"{half}.converter.schemas.enable": schemas for half in halves},
    }


def config(feed: Feed, server: Postgres | MariaDb, kafka: Kafka, registry: SchemaRegistry) -> dict[str, str]:
    if isinstance(server, Postgres):
        base = {**server.debezium(feed.prefix), "schema.include.list": SCHEMA}
    else:
        base = {
            **server.debezium(feed.prefix, kafka.bootstrap_servers),
            "database.include.list": SCHEMA,
            # A table of another test may have a type that the connector does not support.
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            # A server identifies its replication clients by this number.
            "database.server.id": str(server.port + FEEDS.index(feed)),
        }
    modes = {OPTIONS[name]: mode for name, mode in feed.modes.items() if name in OPTIONS}
    return {**base, **modes, **converter(feed.modes["wire"], registry)}


@pytest.fixture(scope="module")
def tables(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    postgres: Postgres,
    mariadb: MariaDb,
    mysql: MariaDb,
    connect: Connect,
    kafka: Kafka,
    registry: SchemaRegistry,
) -> dict[Feed, DataFrame]:
    """Return the table of each connector after a snapshot and a stream."""
    servers: dict[str, Postgres | MariaDb] = {"postgres": postgres, "mariadb": mariadb, "mysql": mysql}
    try:
        capture_events(servers, connect, kafka, registry)
    finally:
        # Many connectors poll for changes continuously and slow down the test.
        for feed in FEEDS:
            connect.delete(feed.prefix)
        postgres.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
            f"where slot_name like 't{RUN}%' and not active"
        )
    folder = tmp_path_factory.mktemp("types")
    return {
        **run_pipeline(folder / "avro", spark, kafka, {"avro": {"registry": registry.ccompat_url}}, "avro"),
        **run_pipeline(folder / "json", spark, kafka, {"json": {}}, "json", "bare"),
    }


def capture_events(
    servers: Mapping[str, Postgres | MariaDb], connect: Connect, kafka: Kafka, registry: SchemaRegistry
) -> None:
    """Write the rows of all connectors to Kafka, first by the snapshot and then by the stream."""
    for name, server in servers.items():
        prepare(server, _get_types(name))
    with ThreadPoolExecutor(4) as pool:
        configs = {feed: config(feed, servers[feed.database], kafka, registry) for feed in FEEDS}
        list(pool.map(lambda feed: connect.put(feed.prefix, configs[feed], timeout=120), FEEDS))
        list(pool.map(lambda feed: kafka.read(feed.topic, feed.types.count, timeout=180), FEEDS))
        for name, server in servers.items():
            insert(server, _get_types(name), "stream")
        list(pool.map(lambda feed: kafka.read(feed.topic, 2 * feed.types.count, timeout=180), FEEDS))


def prepare(server: Postgres | MariaDb, types: TypeTable) -> None:
    """Create the table with the rows of the snapshot."""
    if isinstance(server, Postgres):
        server.execute(f"create schema {SCHEMA};{types_postgres.CUSTOM_TYPES.format(schema=SCHEMA)}")
    else:
        server.execute(f"create database {SCHEMA} character set utf8mb4")
    server.execute(_session_settings(server) + types.create(f"{SCHEMA}.all_types"))
    insert(server, types, "snapshot")


def insert(server: Postgres | MariaDb, types: TypeTable, phase: str) -> None:
    server.execute(_session_settings(server) + types.insert(f"{SCHEMA}.all_types", PHASES[phase]))


def _session_settings(server: Postgres | MariaDb) -> str:
    """Return settings of the writing session. They allow zero dates and set a time zone other than the server's."""
    if isinstance(server, Postgres):
        return f"set search_path = {SCHEMA}, public; set time zone 'Asia/Kolkata';"
    return "set sql_mode = '', time_zone = '+05:00';"


def _get_types(database: str) -> TypeTable:
    return next(feed.types for feed in FEEDS if feed.database == database)


def run_pipeline(
    folder: Path, spark: SparkSession, kafka: Kafka, value: dict[str, Any], *wires: str
) -> dict[Feed, DataFrame]:
    """Run one pipeline for all topics of a wire format; return the table of each feed."""
    feeds = [feed for feed in FEEDS if feed.modes["wire"] in wires]
    topics = [feed.topic for feed in feeds]
    pipeline = pipelines.pipeline(
        folder,
        "iceberg",
        source={"kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topics}, "value": value},
        tables=[{"source": "*", "target": "{prefix}.{table}"}],
    )
    summary = pipeline.run(spark)
    assert {table.table: table.dead_letters for table in summary.tables} == {f"{f.prefix}.all_types": 0 for f in feeds}
    return {feed: pipeline.read(f"{feed.prefix}.all_types", spark=spark) for feed in feeds}


@pytest.mark.parametrize("feed", FEEDS, ids=str)
def test_types(feed: Feed, tables: dict[Feed, DataFrame]) -> None:
    types = {field.name: field.dataType.simpleString() for field in tables[feed].schema}
    assert types == {"id": "bigint" if feed.modes["wire"] == "bare" else "int", **get_expected_types(feed)}


def get_expected_types(feed: Feed) -> dict[str, str]:
    return {type_.name: type_.kind(feed.modes) for type_ in feed.types.types}


@pytest.mark.parametrize("feed", FEEDS, ids=str)
def test_values(
    feed: Feed, tables: dict[Feed, DataFrame], postgres: Postgres, mariadb: MariaDb, mysql: MariaDb
) -> None:
    servers: dict[str, Postgres | MariaDb] = {"postgres": postgres, "mariadb": mariadb, "mysql": mysql}
    printed = servers[feed.database].query(
        f"select id, {feed.types.sql(feed.modes)} from {SCHEMA}.all_types order by id"
    )
    found = tables[feed].orderBy("id").selectExpr("id", *feed.types.spark(feed.modes)).collect()
    assert [row[0] for row in found] == [row[0] for row in printed]
    assert len(found) == len(PHASES) * feed.types.count
    wrong = [
        f"{type_.name} {type_.value(row)} in the {phase}: {cell!r}, not {expected!r}"
        for phase, first in PHASES.items()
        for cells, expected_cells in zip(found, printed, strict=True)
        if (row := cells[0] - first) in range(feed.types.count)
        for type_, cell, printed_cell in zip(feed.types.types, cells[1:], expected_cells[1:], strict=True)
        if not same(cell, expected := type_.arrives(row, printed_cell, phase, feed.modes))
    ]
    assert wrong == []
