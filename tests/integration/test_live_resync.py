"""Resync after a lost replication slot: rows change while no connector runs, and a new connector takes a new snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pg8000.native import DatabaseError
from tests.support import pipelines
from tests.support.waiting import stop_at_end, until, until_tables

from headrace import ConfigError
from headrace_stack import Connect, Kafka, Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

NAME, TABLE = "resynced", "resynced.things"


def test_table_equals_database_after_lost_slot_new_snapshot_and_resync(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, connect: Connect, kafka: Kafka
) -> None:
    def database() -> list[dict[str, Any]]:
        return [{"id": key, "name": name} for key, name in postgres.query(f"select id, name from {TABLE} order by id")]

    def lake(sink: str) -> list[dict[str, Any]]:
        try:
            return pipelines.rows(pipeline, spark, TABLE, key="id", sink=sink)
        except ConfigError:  # no table yet
            return []

    def run_until_equal(rows: list[dict[str, Any]]) -> None:
        with stop_at_end(pipeline.start(spark, "200 ms")) as query:
            for sink in pipelines.TABLE_SINKS:
                until_tables(query, lambda sink=sink: (lake(sink), rows), sink)  # type: ignore[misc]

    postgres.execute(
        f"create schema {NAME}; create table {TABLE} (id int primary key, name text);"
        f"insert into {TABLE} select i, 'read ' || i from generate_series(1, 4) i"
    )
    config = {**postgres.debezium(NAME), "schema.include.list": NAME}
    connect.put(NAME, config)
    pipeline = pipelines.pipeline(
        tmp_path,
        *pipelines.TABLE_SINKS,
        source={
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{NAME}[.].*"},
            "value": {"json": {}},
        },
        tables=[{"source": f"{NAME}.*", "target": "{schema}.{table}"}],
    )
    run_until_equal(database())
    for statement in (  # one transaction each, so that positions contain commits
        f"update {TABLE} set name = 'streamed' where id < 4",
        f"insert into {TABLE} values (5, 'streamed'), (6, 'streamed')",
        f"update {TABLE} set name = 'twice' where id = 6",
    ):
        postgres.execute(statement)
    run_until_equal(database())

    connect.delete(NAME)
    until(lambda: _try_drop_slot(postgres, config["slot.name"]), "slot", 60)
    postgres.execute(
        f"delete from {TABLE} where id in (1, 5); update {TABLE} set name = 'unseen' where id in (2, 6);"
        f"insert into {TABLE} values (7, 'unseen')"
    )
    connect.put(f"{NAME}-again", config)
    until(lambda: _is_active(postgres, config["slot.name"]), "new slot", 60)
    postgres.execute(f"update {TABLE} set name = 'first' where id = 3; insert into {TABLE} values (8, 'first')")
    postgres.execute(f"update {TABLE} set name = 'second' where id = 7; delete from {TABLE} where id = 4")
    # No event reported the deleted rows.
    deleted = [{"id": 1, "name": "streamed"}, {"id": 5, "name": "streamed"}]
    run_until_equal(sorted([*database(), *deleted], key=lambda row: int(row["id"])))
    assert [result.removed for result in pipeline.resync(TABLE, spark=spark)] == [2] * len(pipelines.TABLE_SINKS)
    for sink in pipelines.TABLE_SINKS:
        assert lake(sink) == database()

    postgres.execute(f"insert into {TABLE} values (1, 'again'); update {TABLE} set name = 'third' where id = 2")
    run_until_equal(database())
    connect.delete(f"{NAME}-again")


def _try_drop_slot(postgres: Postgres, slot: str) -> bool:
    """Drop the slot; return False if the deleted connector still uses it."""
    try:
        postgres.execute(f"select pg_drop_replication_slot('{slot}')")
    except DatabaseError as error:
        if "is active" not in str(error):
            raise
        return False
    return True


def _is_active(postgres: Postgres, slot: str) -> bool:
    return postgres.query(f"select active from pg_replication_slots where slot_name = '{slot}'") == [(True,)]
