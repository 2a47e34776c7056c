"""Tables that follow SQL Server.

The connector, driver, Kafka and schema registry are real. A stand-in replaces the SQL Server itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines, types_sqlserver
from tests.support.waiting import until_tables

from headrace import ConfigError, Pipeline
from headrace.engine.run.query import Query
from headrace_stack import Connect, Kafka, SchemaRegistry, SqlServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

ARTISTS = ["id int not null", "name nvarchar(40) not null", "fee decimal(12,2)", "rank nvarchar(10) default 'new'"]
TYPES = ["id int not null", "c_rowversion rowversion", *(f"{t.name} {t.ddl}" for t in types_sqlserver.TYPES)]
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
    # By default, the converter replaces null with the default of the column.
    "value.converter.replace.null.with.default": "false",
}
Rows = list[list[Any]]


@dataclass
class Feed:
    """Events of one connector of the stand-in, and the pipeline that writes them to tables."""

    name: str
    wire: str
    sinks: Sequence[str]
    sqlserver: SqlServer
    spark: SparkSession
    pipeline: Pipeline

    def rows(self, sink: str, table: str, columns: Sequence[str]) -> Rows:
        """Return the rows as Spark reads them, or no rows if the table does not exist yet."""
        try:
            frame = self.frame(sink, table)
        except ConfigError:
            return []
        found = frame.orderBy("id").selectExpr(*columns).collect()
        return [[bytes(cell) if isinstance(cell, bytearray) else cell for cell in row] for row in found]

    def frame(self, sink: str, table: str) -> DataFrame:
        return self.pipeline.read(f"lake.{table}", sink=sink, spark=self.spark)


@pytest.fixture(params=["json", "avro"])
def wire(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def feed(
    wire: str,
    tmp_path: Path,
    spark: SparkSession,
    sqlserver: SqlServer,
    connect: Connect,
    kafka: Kafka,
    registry: SchemaRegistry,
) -> Iterator[Callable[[str], Feed]]:
    """Return a function that starts a connector for one table and returns its feed."""
    # Everything after the decoding is the same for both formats, so one of them covers one sink only.
    sinks = pipelines.TABLE_SINKS if wire == "json" else ("iceberg",)
    started = []

    def start(table: str) -> Feed:
        name = f"live_{table}"
        converter = registry.avro_converter() if wire == "avro" else JSON
        include = {"table.include.list": f"dbo.{table}"}
        connect.put(name, {**sqlserver.debezium(name, kafka.bootstrap_servers), **include, **converter})
        started.append(name)
        value: dict[str, Any] = {"avro": {"registry": registry.ccompat_url}} if wire == "avro" else {"json": {}}
        block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.]test[.].*"}
        rules = [{"source": "*", "target": "lake.{table}"}]
        pipeline = pipelines.pipeline(tmp_path, *sinks, source={"kafka": block, "value": value}, tables=rules)
        return Feed(name, wire, sinks, sqlserver, spark, pipeline)

    yield start
    for name in started:
        connect.delete(name)


def test_tables_follow_sql_server(sqlserver: SqlServer, feed: Callable[[str], Feed], wire: str) -> None:
    artists = f"{wire}_artists"
    sqlserver.create_table(artists, ARTISTS, key=["id"])
    sqlserver.insert(
        artists,
        {"id": 1, "name": "Arp", "fee": "12.5"},
        {"id": 2, "name": "é中😀", "fee": "-9999999999.99"},
        {"id": 3, "name": ""},
        {"id": 4, "name": "Höch"},
        {"id": 5, "name": "Taeuber"},
    )
    found = feed(artists)
    query = found.pipeline.start(found.spark, "200 ms")
    try:
        wait_until_equal(query, found, artists, ["id", "name", "fee"])
        change(sqlserver, artists)
        wait_until_equal(query, found, artists, ["id", "name", "fee", "rank"])
        sqlserver.add_column(artists, "died varchar(10)")
        sqlserver.update(artists, {"id": 6}, {"died": "1976-04-01"})
        sqlserver.update(artists, {"id": 1}, {"name": "Hans"})
        sqlserver.insert(artists, {"id": 7, "name": "Ball", "died": "1927-09-14"})
        wait_until_equal(query, found, artists, ["id", "name", "fee", "died"])
    finally:
        query.stop()


def change(sqlserver: SqlServer, artists: str) -> None:
    sqlserver.insert(artists, {"id": 6, "name": "Ernst", "fee": 1})
    sqlserver.update(artists, {"id": 1}, {"fee": "13.5"})
    sqlserver.delete(artists, {"id": 2})
    sqlserver.update(artists, {"id": 3}, {"id": 30})
    with sqlserver.transaction() as changes:
        # One row changes repeatedly, and two rows swap keys. Only the order in the transaction gives the right result.
        for fee in range(12):
            changes.update(artists, {"id": 1}, {"fee": fee})
        changes.update(artists, {"id": 4}, {"id": 40})
        changes.update(artists, {"id": 5}, {"id": 4})
        changes.update(artists, {"id": 40}, {"id": 5})
        changes.delete(artists, {"id": 6})
        changes.insert(artists, {"id": 6, "name": "Max", "rank": None})


def wait_until_equal(query: Query, feed: Feed, artists: str, columns: list[str]) -> None:
    """Wait until the table in each sink equals the database table. On a timeout, report both."""
    expected = [[row[c] for c in columns] for row in feed.sqlserver.rows(artists)]
    if "rank" in columns and feed.wire == "avro":
        # Apicurio's converter replaces null with the default, and no option prevents it.
        expected = [[*row[:-1], row[-1] or "new"] for row in expected]
    first = ["id", "name", "cast(fee as string)"]
    for sink in feed.sinks:
        # The last change of each round brings the new column, so the column exists once these cells are equal.
        until_tables(query, lambda sink=sink: (feed.rows(sink, artists, first), [row[:3] for row in expected]), sink)  # type: ignore[misc]
        cells = ["cast(fee as string)" if column == "fee" else column for column in columns]
        assert feed.rows(sink, artists, cells) == expected, sink


def test_every_type_has_expected_type_and_values(
    sqlserver: SqlServer, feed: Callable[[str], Feed], kafka: Kafka, wire: str
) -> None:
    kinds, count = f"{wire}_types", types_sqlserver.COUNT
    sqlserver.create_table(kinds, TYPES, key=["id"])
    sqlserver.insert(kinds, *types_sqlserver.rows(0))
    found = feed(kinds)
    topic = f"{found.name}.test.dbo.{kinds}"
    kafka.read(topic, count)
    sqlserver.insert(kinds, *types_sqlserver.rows(100))
    # Fill the row of nulls with values, and a row of values with nulls.
    full, null, *_ = types_sqlserver.rows(0)
    sqlserver.update(kinds, {"id": 101}, {**full, "id": 101})
    sqlserver.update(kinds, {"id": 100}, {**null, "id": 100})
    kafka.read(topic, 2 * count + 2)
    summary = found.pipeline.run(found.spark)
    assert {(table.rows_in, table.dead_letters) for table in summary.tables} == {(2 * count + 2, 0)}
    schema = {field.name: field.dataType.simpleString() for field in found.frame("iceberg", kinds).schema}
    assert schema == {"id": "int", "c_rowversion": "binary", **{t.name: t.kind for t in types_sqlserver.TYPES}}
    columns = types_sqlserver.lake_columns()
    expected = [types_sqlserver.lake_row(row) for row in sqlserver.rows(kinds)]
    for sink in found.sinks:
        actual = found.rows(sink, kinds, columns)
        assert len(actual) == len(expected) == 2 * count
        assert differences(columns, actual, expected) == [], sink


def differences(columns: Sequence[str], actual: Rows, expected: Rows) -> list[Any]:
    """Return key, column, actual value and expected value of each cell that differs."""
    return [
        (expected_row[0], column, actual_cell, expected_cell)
        for found, expected_row in zip(actual, expected, strict=True)
        for column, actual_cell, expected_cell in zip(columns, found, expected_row, strict=True)
        if actual_cell != expected_cell
    ]
