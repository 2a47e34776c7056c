"""Rows per second of the source ``jdbc`` into an Iceberg table, against Spark's own JDBC reader.

::

    python -m benchmarks.jdbc --work FOLDER [--rows 1000000] [--partitions 1 2] [--repeat 3]

PostgreSQL has a table of ten columns. In each round, a run of a new pipeline loads it, and then a job that a user would write:
``spark.read.format("jdbc")`` with the same number of connections, and ``writeTo().create()``. Both create an Iceberg table in the same
session. Then a tenth of the rows is updated: headrace reads them by their time, and the job reads the table with a condition on the time
and merges them by key. The last round also compares keys after one row in a thousand was deleted. Three rounds warm up the JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import Pipeline
from headrace_stack import Postgres

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Catalog of the job.
CATALOG = "byhand"
WARM_UP = 3
_CREATE = """
    drop table if exists public.orders;
    create table public.orders (id bigint primary key, customer_id int not null, state varchar(20) not null, note text,
        amount numeric(12, 2), tax numeric(12, 2), placed_at timestamp, paid boolean, rate double precision,
        updated_at timestamptz not null);
    insert into public.orders select i, i % 1000, 'state ' || i % 7, md5(i::text), i % 9973 / 100.0, i % 89 / 100.0,
        timestamp '2026-01-01' + i * interval '1 second', i % 2 = 0, i / 7.0, now() - interval '1 hour'
        from generate_series(1, {rows}) i;
    create index on public.orders (updated_at, id);
    analyze public.orders
"""


def make_pipeline(server: Postgres, work: Path, name: str, partitions: int, pause: str = "1 hour") -> Pipeline:
    """Make a pipeline of its own tables and checkpoint. ``pause``: the one between comparisons of keys."""
    source = {
        "connection.url": url_of(server),
        "connection.user": server.user,
        "connection.password": server.password,
        "table.whitelist": "public.orders",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "updated_at",
        "incrementing.column.name": "id",
        "topic.prefix": "shop.",
        "numPartitions": partitions,
        "timestamp.window.interval.ms": 0,
        "reconcile": pause,
    }
    spark = {
        "spark.master": "local[2]",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(work / CATALOG),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    return Pipeline.from_dict(
        {
            "name": name,
            "source": {"jdbc": source},
            "sink": {"iceberg": {"warehouse": str(work / "lake" / name)}},
            "checkpoint": str(work / "checkpoints" / name),
            "spark": spark,
        }
    )


def url_of(server: Postgres) -> str:
    """Return the JDBC address of a server."""
    return f"jdbc:postgresql://{server.host}:{server.port}/{server.database}"


class SparkJob:
    """Job that a user would write."""

    def __init__(self, server: Postgres, spark: SparkSession, partitions: int, rows: int) -> None:
        self._server, self._spark, self._partitions, self._rows = server, spark, partitions, rows
        self.table = f"{CATALOG}.shop.orders"
        spark.sql(f"drop table if exists {self.table}")

    def load(self) -> None:
        """Create the table with all rows."""
        self._read("public.orders").writeTo(self.table).tableProperty("format-version", "2").create()

    def update(self, since: datetime) -> None:
        """Merge the rows that changed since a time."""
        from pyspark.sql import functions as F

        changed = self._read("public.orders").where(F.col("updated_at") > F.lit(since))  # PostgreSQL gets the condition
        changed.createOrReplaceTempView("changed")
        self._spark.sql(
            f"merge into {self.table} t using changed s on t.id = s.id when matched then update set * when not matched then insert *"
        )

    def _read(self, table: str) -> DataFrame:
        server = self._server
        reader = self._spark.read.format("jdbc").option("url", url_of(server)).option("dbtable", table)
        reader = reader.option("user", server.user).option("password", server.password).option("fetchsize", 10_000)
        reader = reader.option("driver", "org.postgresql.Driver")
        if self._partitions > 1:
            reader = reader.option("partitionColumn", "id").option("lowerBound", 1).option("upperBound", self._rows)
            reader = reader.option("numPartitions", self._partitions)
        return reader.load()


def take_time(work: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def run_round(
    server: Postgres, spark: SparkSession, work: Path, name: str, partitions: int, rows: int
) -> dict[str, float]:
    """Return the seconds of each step. Each of the two tables has all rows at the end."""
    pipeline, job = make_pipeline(server, work, name, partitions), SparkJob(server, spark, partitions, rows)
    found = {"headrace load": take_time(lambda: pipeline.run(spark)), "Spark load": take_time(job.load)}
    since = server.query("select now()")[0][0]
    server.execute("update public.orders set state = 'new', updated_at = clock_timestamp() where id % 10 = 0")
    found["headrace update"] = take_time(lambda: pipeline.run(spark))
    found["Spark update"] = take_time(lambda: job.update(since))
    for table in (pipeline.read("shop.orders", spark=spark), spark.table(job.table)):
        assert table.count() == rows
        assert table.where("state = 'new'").count() == rows // 10
    return found


def measure_comparison(server: Postgres, spark: SparkSession, work: Path, partitions: int, rows: int) -> float:
    """Return the seconds of a run that only compares keys, and removes one row in a thousand."""
    pipeline = make_pipeline(server, work, f"compared_{partitions}", partitions, "1 millisecond")
    pipeline.run(spark)
    server.execute("delete from public.orders where id % 1000 = 0")
    seconds = take_time(lambda: pipeline.run(spark))
    assert pipeline.read("shop.orders", spark=spark).count() == rows - rows // 1000
    return seconds


def compare(
    server: Postgres, spark: SparkSession, work: Path, partitions: int, rows: int, rounds: int
) -> dict[str, Any]:
    """Measure both in turn, so that other load affects both."""
    taken: list[dict[str, float]] = []
    for number in range(rounds + WARM_UP):
        size = rows if number >= WARM_UP else min(rows, 100_000)
        server.execute(_CREATE.format(rows=size))
        taken.append(run_round(server, spark, work, f"p{partitions}_{number}", partitions, size))
        shutil.rmtree(work / "lake", ignore_errors=True)
    found: dict[str, Any] = {"connections": partitions, "rows": rows}
    for step, size in (("load", rows), ("update", rows // 10)):
        ours, theirs = ([one[f"{who} {step}"] for one in taken[WARM_UP:]] for who in ("headrace", "Spark"))
        found[f"headrace {step} rows/s"] = round(size / statistics.median(ours))
        found[f"Spark {step} rows/s"] = round(size / statistics.median(theirs))
        ratios = sorted(there / here for here, there in zip(ours, theirs, strict=True))
        found[f"{step} ratio"] = [round(ratio, 2) for ratio in (statistics.median(ratios), ratios[0], ratios[-1])]
    found["comparison of keys s"] = round(measure_comparison(server, spark, work, partitions, rows), 2)
    return found


def main() -> None:
    """Print a line of JSON for each number of connections."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--rows", type=int, default=1_000_000)
    cli.add_argument("--partitions", type=int, nargs="*", default=[1, 2])
    cli.add_argument("--repeat", type=int, default=3)
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    with Postgres() as server:
        spark = make_pipeline(server, arguments.work, "session", 1).session()
        for partitions in arguments.partitions:
            found = compare(server, spark, arguments.work, partitions, arguments.rows, arguments.repeat)
            print(json.dumps({**found, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
