"""Seconds of ``headrace verify`` for a table of equal rows, and the CPU seconds of the database, against a download of all rows.

::

    python -m benchmarks.verify_tables --work FOLDER [--rows 10000000] [--repeat 3]

PostgreSQL and an Iceberg table have the same rows of eight columns. A pipeline applies one of them, and Spark appends the others, because
the rows do not matter to the comparison. In each round, ``headrace verify`` runs as a program of its own, and then a job reads all
rows by Spark's JDBC reader in two connections, and compares them with ``exceptAll`` in both directions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from benchmarks import process_tree

from headrace import Pipeline
from headrace_stack import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "public.orders"
#: Driver of the job.
DRIVER = "org.postgresql:postgresql:42.7.7"
_CREATE = """
    create table public.orders (id bigint primary key, customer_id int not null, state text not null, note text not null,
        code text not null, amount bigint not null, paid boolean not null, rate double precision not null);
    insert into public.orders select i, i % 1000, 'state ' || i % 7, md5(i::text), md5((i + 1)::text), i % 9973, i % 2 = 0,
        i / 7.0::double precision from generate_series(1, {rows}) i;
    analyze public.orders
"""
_ROW = {"id": 1, "customer_id": 1, "state": "state 1", "amount": 1, "paid": False, "rate": 1 / 7}
_ROW |= {
    "note": hashlib.md5(b"1", usedforsecurity=False).hexdigest(),
    "code": hashlib.md5(b"2", usedforsecurity=False).hexdigest(),
}
_OTHERS = (
    "CAST(i % 1000 AS {customer_id}) customer_id",
    "concat('state ', i % 7) state",
    "md5(CAST(i AS STRING)) note",
    "md5(CAST(i + 1 AS STRING)) code",
    "CAST(i % 9973 AS {amount}) amount",
    "i % 2 = 0 paid",
    "CAST(i AS DOUBLE) / CAST(7 AS DOUBLE) rate",
)


def main() -> None:
    """Make the tables, and print the seconds of each round and the medians."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--rows", type=int, default=10_000_000)
    cli.add_argument("--repeat", type=int, default=3)
    arguments = cli.parse_args()
    work = arguments.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    with Postgres() as server:
        server.execute(_CREATE.format(rows=arguments.rows))
        file = write_pipeline(work, server)
        pipeline = Pipeline.from_file(file)
        spark = pipeline.session()
        fill_table(pipeline, spark, work, arguments.rows)
        rounds = [run_round(server, pipeline, spark, file, arguments.rows) for _ in range(arguments.repeat)]
    for name in rounds[0]:
        print(f"{name}: {statistics.median(found[name] for found in rounds):.1f} s of {[f[name] for f in rounds]}")


def write_pipeline(work: Path, server: Postgres) -> Path:
    """Write the file of the pipeline, and the event of the first row."""
    topic = work / "in" / "shop.public.orders"
    topic.mkdir(parents=True)
    source = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "orders", "lsn": 1}
    event = {"op": "c", "before": None, "after": _ROW, "source": {**source, "ts_ms": 1}, "ts_ms": 1}
    (topic / "1.json").write_text(json.dumps(event), encoding="utf-8")
    content = {
        "name": "verify",
        "source": {"files": {"path": str(work / "in"), "format": "json"}},
        "tables": [{"source": "*", "target": "{schema}.{table}", "key": ["id"]}],
        "transforms": [{"unwrap": {}}],
        "sink": {"iceberg": {"warehouse": str(work / "lake")}},
        "checkpoint": str(work / "checkpoint"),
        "verify": {"config": server.debezium("shop")},
        "spark": {"spark.master": "local[2]", "spark.jars.packages": DRIVER},
    }
    file = work / "pipeline.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def fill_table(pipeline: Pipeline, spark: SparkSession, work: Path, rows: int) -> None:
    """Apply the first row, and append the others."""
    pipeline.run(spark)
    path = str(work / "lake" / "public" / "orders")
    table = spark.read.format("iceberg").load(path)
    types = {field.name: field.dataType.simpleString() for field in table.schema}
    position = table.select("_headrace_position").first()
    assert position is not None
    others = [text.format(**types) for text in _OTHERS]
    made = (
        spark.range(2, rows + 1)
        .selectExpr("id", "id AS i")
        .selectExpr("id", *others, f"'{position[0]}' _headrace_position")
    )
    made.select(*table.columns).write.format("iceberg").mode("append").save(path)


def run_round(server: Postgres, pipeline: Pipeline, spark: SparkSession, file: Path, rows: int) -> dict[str, float]:
    """Return the seconds of the program, of its comparison, of the database's processors, and of the download."""
    before, began = database_cpu(server), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "verify", str(file), "--json"], check=False, capture_output=True, text=True
    )
    found = {"headrace verify": time.monotonic() - began, "CPU of the database": database_cpu(server) - before}
    (table,) = json.loads(done.stdout)["tables"]
    assert (done.returncode, table["rows"], table["equal"]) == (0, rows, rows), done.stdout + done.stderr
    before, began = database_cpu(server), time.monotonic()
    reader = spark.read.format("jdbc").option("url", f"jdbc:postgresql://{server.host}:{server.port}/{server.database}")
    reader = reader.options(
        dbtable=TABLE, user=server.user, password=server.password, fetchsize=10_000, driver="org.postgresql.Driver"
    )
    reader = reader.options(partitionColumn="id", lowerBound=1, upperBound=rows, numPartitions=2)
    ours = pipeline.read(TABLE, spark=spark)
    theirs = reader.load().selectExpr(*[f"CAST({f.name} AS {f.dataType.simpleString()}) {f.name}" for f in ours.schema])
    assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
    found["download"] = time.monotonic() - began
    found["CPU of the database, download"] = database_cpu(server) - before
    return found


def database_cpu(server: Postgres) -> float:
    """Return the CPU seconds of the server's processes so far, with those of ended connections."""
    assert server.pid is not None
    return process_tree.cpu_s(server.pid)


if __name__ == "__main__":
    main()
