"""Schema changes of followed tables: dropped and renamed columns, wider types, and a table that is dropped and recreated."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import IllegalArgumentException
from tests.support import pipelines
from tests.support.waiting import stop_at_end, until_tables

from headrace import ConfigError
from headrace_stack import Connect, Kafka, Postgres, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

NAME, TABLE = "changing", "changing.things"
COLUMNS = ("id", "number", "ratio", "price", "code", "old", "gone")
WIDE = 2**40


def row(*values: Any, **others: Any) -> dict[str, Any]:
    """Return a row with values for the first columns, null for the other original columns, and values of later columns."""
    padded = [*values, *[None] * (len(COLUMNS) - len(values))]
    return {**dict(zip(COLUMNS, padded, strict=True)), **others}


def test_tables_follow_schema_changes(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, connect: Connect, kafka: Kafka, registry: SchemaRegistry
) -> None:
    postgres.execute(
        f"create schema {NAME}; create table {TABLE} (id int primary key, number int, ratio real, price numeric(6,2), "
        f"code varchar(5), old text, gone text); insert into {TABLE} values "
        "(1, 1, 0.5, 1.50, 'a', 'old 1', 'gone 1'), (2, 2, 0.5, 2.50, 'b', 'old 2', 'gone 2')"
    )
    connect.put(NAME, {**postgres.debezium(NAME), "schema.include.list": NAME, **registry.avro_converter()})
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{NAME}[.].*"}
    pipeline = pipelines.pipeline(
        tmp_path,
        *pipelines.TABLE_SINKS,
        source={"kafka": block, "value": {"avro": {"registry": registry.ccompat_url}}},
        tables=[{"source": f"{NAME}.*", "target": "{schema}.{table}"}],
    )

    def lake(sink: str) -> list[dict[str, Any]]:
        try:
            return pipelines.rows(pipeline, spark, TABLE, key="id", sink=sink)
        except ConfigError:  # no table yet
            return []
        except IllegalArgumentException as error:  # a column was widened between the plan of this read and the read
            if "Cannot project" not in str(error):
                raise
            return []

    def wait_for_rows(*rows: dict[str, Any]) -> None:
        for sink in pipelines.TABLE_SINKS:
            until_tables(query, lambda sink=sink: (lake(sink), list(rows)), sink)  # type: ignore[misc]

    first = row(1, 1, 0.5, Decimal("1.50"), "a", "old 1", "gone 1")
    with stop_at_end(pipeline.start(spark, "200 ms")) as query:
        wait_for_rows(first, row(2, 2, 0.5, Decimal("2.50"), "b", "old 2", "gone 2"))
        postgres.execute(
            f"alter table {TABLE} drop column gone; alter table {TABLE} rename column old to renamed;"
            f"insert into {TABLE} values (3, 3, 0.25, 3.00, 'c', 'new 3'); update {TABLE} set number = 20 where id = 2"
        )
        second = row(2, 20, 0.5, Decimal("2.50"), "b", renamed="old 2")
        third = row(3, 3, 0.25, Decimal("3.00"), "c", renamed="new 3")
        wait_for_rows({**first, "renamed": None}, second, third)
        postgres.execute(
            f"alter table {TABLE} alter number type bigint, alter ratio type double precision, "
            f"alter price type numeric(12,2), alter code type text;"
            f"insert into {TABLE} values (4, {WIDE}, 0.1, 1234567890.25, 'longer than five', 'new 4')"
        )
        fourth = row(4, WIDE, 0.1, Decimal("1234567890.25"), "longer than five", renamed="new 4")
        wait_for_rows({**first, "renamed": None}, second, third, fourth)
        # A dropped table emits no event for its rows.
        postgres.execute(
            f"drop table {TABLE}; create table {TABLE} (id int primary key, number bigint, more boolean);"
            f"insert into {TABLE} values (1, 100, true), (9, 9, false)"
        )
        wait_for_rows(
            row(1, 100, renamed=None, more=True),
            *[{**earlier, "more": None} for earlier in (second, third, fourth)],
            row(9, 9, renamed=None, more=False),
        )
    connect.delete(NAME)
