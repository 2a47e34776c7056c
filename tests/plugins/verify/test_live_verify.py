"""``headrace verify`` while a database is written to, with Debezium, Kafka and a running pipeline."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from headrace_verify.source_connection import KINDS
from headrace_verify.table_verification import DatabaseVerifier, VerifyOptions
from tests.support.waiting import stop_at_end, until

from headrace import ConfigError, Pipeline
from headrace_connect.preflight.source_database import open_database, resolve_options
from headrace_stack import Connect, Kafka, MariaDb, Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.dist,
    pytest.mark.slow,
    pytest.mark.one_spark,
    pytest.mark.timeout(900),
]
ROWS = 2000
JSON = {
    f"{part}.{key}": value
    for part in ("key", "value")
    for key, value in (
        ("converter", "org.apache.kafka.connect.json.JsonConverter"),
        ("converter.schemas.enable", "true"),
    )
}
TABLE = "create table {schema}.orders (id int primary key, note varchar(100), fee decimal(12,2), phone varchar(40))"
#: Deletes are not sent: the table of the lake keeps their rows.
LOSSY = {"skipped.operations": "d", "heartbeat.interval.ms": "1000"}


def write_file(folder: Path, name: str, connect: Connect, kafka: Kafka, config: dict[str, str]) -> Path:
    """Write a pipeline file with a block for the connector."""
    file = folder / "pipeline.yaml"
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.].*[.]orders"}
    content = {
        "name": name,
        "source": {"kafka": block, "value": {"json": {}}},
        "tables": [{"source": "*", "target": "{schema}.{table}"}],
        "transforms": [{"unwrap": {}}, {"mask": {"columns": {"phone": {"characters": 4}}}}],
        "sink": {"iceberg": {"warehouse": f"{folder}/lake"}},
        "checkpoint": f"{folder}/checkpoint",
        "connect": {"url": connect.url, "name": name, "config": {**config, **JSON, **LOSSY}},
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


@contextmanager
def write_rows(server: Postgres | MariaDb, schema: str) -> Iterator[None]:
    """Insert and update rows during a block, a hundred times a second at most; each row once, so that each comparison of it can end."""
    stop = threading.Event()

    def run() -> None:
        connection = server.connect()
        numbers, rows = iter(range(10_000, 100_000)), iter(random.Random(1).sample(range(10, ROWS), ROWS - 10))
        while not stop.wait(0.01):
            new, row = next(numbers), next(rows, None)
            update = f"update {schema}.orders set note = 'n{new}', fee = fee + 0.01 where id = {row}"
            insert = f"insert into {schema}.orders values ({new}, 'new', 1, '555 1234')"
            sql = update if new % 3 and row is not None else insert
            connection.run(sql) if isinstance(server, Postgres) else connection.cursor().execute(sql)
        connection.close()

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def verify(file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and its JSON."""
    program = [sys.executable, "-m", "headrace", "verify", str(file), "--json", *options]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_only_real_differences_count_while_rows_change(
    tmp_path: Path, spark: SparkSession, connect: Connect, kafka: Kafka, kind: str, request: pytest.FixtureRequest
) -> None:
    server: Postgres | MariaDb = request.getfixturevalue(kind)
    schema = f"verify_{kind}"
    server.execute(f"create {'schema' if kind == 'postgres' else 'database'} {schema}")
    server.execute(TABLE.format(schema=schema))
    rows = ", ".join(f"({n}, 'note {n}', {n}.5, '030 {n}')" for n in range(ROWS))
    server.execute(f"insert into {schema}.orders values {rows}")
    if isinstance(server, Postgres):
        config = {**server.debezium(schema), "schema.include.list": schema}
    else:
        server.execute(f"create table {schema}.signals (id varchar(42) primary key, type varchar(32), data text)")
        config = server.debezium(schema, kafka.bootstrap_servers)
        config |= {"database.include.list": schema, "signal.data.collection": f"{schema}.signals"}
    file = write_file(tmp_path, schema, connect, kafka, config)
    pipeline = Pipeline.from_file(file)
    connect.put(schema, {**config, **JSON, **LOSSY})
    try:
        with stop_at_end(pipeline.start(spark, "200 ms")):
            until(lambda: count_rows(pipeline, spark, f"{schema}.orders") == ROWS, "snapshot", 240)
            server.execute(f"delete from {schema}.orders where id = 5")
            with write_rows(server, schema):
                time.sleep(2)
                code, found = verify(file)
        [table] = found["tables"]
        assert "error" not in table, table
        assert table["keys"] == [{"key": {"id": "5"}, "kind": "extra", "columns": []}], table
        assert (code, table["unsettled"], table["left_out"]) == (1, 0, {"phone": "a transform changes it"})
        server.execute(f"update {schema}.orders set note = 'late' where id = 1")
        assert "the pipeline has not applied the changes" in explain_failure(pipeline, spark, config)
        server.execute(
            f"alter table {schema}.orders drop constraint {'orders_pkey' if kind == 'postgres' else '`primary`'}"
        )
        assert f"{schema}.orders has no primary key" in explain_failure(pipeline, spark, config)
    finally:
        connect.delete(schema)


@pytest.mark.nightly
def test_rows_are_repaired_by_the_connector(
    tmp_path: Path, spark: SparkSession, connect: Connect, kafka: Kafka, postgres: Postgres
) -> None:
    """The connector omits updates and deletes, so that the table has other rows."""
    schema = "repaired"
    for statement in (
        f"create schema {schema}",
        TABLE.format(schema=schema),
        f"create table {schema}.signals (id varchar(42) primary key, type varchar(32), data varchar(2048))",
        f"insert into {schema}.orders select n, 'note ' || n, n + 0.5, '030' from generate_series(1, 100) n",
    ):
        postgres.execute(statement)
    config = {**postgres.debezium(schema), "schema.include.list": schema, **JSON}
    config |= {**LOSSY, "signal.data.collection": f"{schema}.signals", "skipped.operations": "u,d"}
    file = write_file(tmp_path, schema, connect, kafka, config)
    pipeline = Pipeline.from_file(file)
    connect.put(schema, config)
    try:
        with stop_at_end(pipeline.start(spark, "200 ms")):
            until(lambda: count_rows(pipeline, spark, f"{schema}.orders") == 100, "snapshot", 240)
            postgres.execute(f"update {schema}.orders set note = 'changed' where id in (1, 2)")
            postgres.execute(f"delete from {schema}.orders where id = 3")
            code, found = verify(file, "--repair")
            notes = {
                row["id"]: row["note"]
                for row in pipeline.read(f"{schema}.orders", spark=spark).where("id < 4").collect()
            }
    finally:
        connect.delete(schema)
    [table] = found["tables"]
    assert "error" not in table, table
    assert (code, table["different"], table["extra"]) == (1, 0, 1), table
    assert (len(table["signals"]), table["notes"][0]) == (1, "repaired rows: 2")
    assert notes == {1: "changed", 2: "changed", 3: "note 3"}
    [entry] = pipeline.log(spark=spark)
    assert (entry.command, entry.result) == ("verify", "done")
    assert entry.arguments == {"tables": [f"{schema}.orders"], "repair": True}


def count_rows(pipeline: Pipeline, spark: SparkSession, table: str) -> int:
    try:
        return pipeline.read(table, spark=spark).count()
    except ConfigError:
        return 0


def explain_failure(pipeline: Pipeline, spark: SparkSession, config: dict[str, str]) -> str:
    """Return the error of a verification without a running pipeline."""
    database, find_form = KINDS[config["connector.class"]]
    with open_database(resolve_options(config, {}), 60) as query:
        connection = database(query, config, lambda: [{"offset": {"file": "binlog.999999", "pos": 0}}])
        [result] = DatabaseVerifier(pipeline, spark, connection, find_form, VerifyOptions(timeout=15)).verify([])
    return str(result.error)
