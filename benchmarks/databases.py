"""Time and resources of the initial load of whole databases.

    python benchmarks/databases.py [--only REGEX] [--repeat 1] [--work FOLDER]

Each round is a separate process. It starts PostgreSQL with Pagila or MariaDB with Sakila, Kafka and Connect with Debezium,
takes the snapshot into Kafka and runs a pipeline into one sink. It ends when every row of every table equals the database.
Wall time, CPU time and memory are those of the process tree, including servers and Spark.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace import Pipeline

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import process_tree  # noqa: E402 - found by the line above
from benchmarks.results import Result, append, read  # noqa: E402
from tests.support import databases  # noqa: E402
from tests.support.databases import Printed, sort_rows  # noqa: E402

VARIANTS = [f"{database}-{sink}" for database in ("pagila", "sakila") for sink in ("iceberg", "hudi")]
_STEPS = ("servers", "snapshot in Kafka", "Spark", "all tables true", "total")
_JSON = {
    f"{side}.converter{rest}": value
    for side in ("key", "value")
    for rest, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
} | {"value.converter.replace.null.with.default": "false"}


def main() -> None:
    """Run every variant in every round, then print the table."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--only", default="", metavar="REGEX")
    cli.add_argument("--repeat", type=int, default=1)
    cli.add_argument("--work", type=Path)
    cli.add_argument("--one", nargs=3, metavar=("VARIANT", "ROUND", "RESULTS"), help=argparse.SUPPRESS)
    arguments = cli.parse_args()
    if arguments.one:
        variant, number, results = arguments.one
        _run_round(variant, int(number), Path(results))
        return
    with TemporaryDirectory(prefix="headrace-databases-") as folder:
        results = (arguments.work or Path(folder)).absolute() / f"databases-{int(time.time())}.jsonl"
        results.parent.mkdir(parents=True, exist_ok=True)
        for number in range(arguments.repeat):
            for variant in filter(re.compile(arguments.only).search, VARIANTS):
                one = [sys.executable, __file__, "--one", variant, str(number), str(results)]
                command = [sys.executable, "-m", "benchmarks.measure", str(results), variant, str(number), "--", *one]
                subprocess.run(command, cwd=ROOT, check=True)
        print(_report(read(results, Result)))


def _run_round(variant: str, number: int, results: Path) -> None:
    """Run one round from empty folders; append the seconds of each step to the results."""
    from headrace_stack import Connect, Kafka

    database, sink = variant.split("-")
    clock, cpu = time.monotonic(), process_tree.cpu_s(os.getpid())

    def step(name: str) -> None:
        nonlocal clock, cpu
        now, used = time.monotonic(), process_tree.cpu_s(os.getpid())
        append(results, Result(variant, number, name, round(now - clock, 2), round(used - cpu, 2)))
        clock, cpu = now, used

    with ExitStack() as stack, TemporaryDirectory(prefix="headrace-lake-") as lake:
        kafka = stack.enter_context(Kafka())
        connect = stack.enter_context(Connect(kafka, ["postgres" if database == "pagila" else "mariadb"]))
        query, tables, connector = (_pagila if database == "pagila" else _sakila)(stack, kafka)
        step("servers")
        connect.put(database, {**connector, **_JSON})
        schema = "public" if database == "pagila" else "sakila"
        for table in tables:
            rows = query(f"select count(*) from {schema}.{table.name}")[0][0]  # noqa: S608 - from the catalog
            while sum(kafka.end_offsets(f"{database}.{schema}.{table.name}").values()) < rows:
                connect.wait_until_running(database)
                time.sleep(0.1)
        step("snapshot in Kafka")
        pipeline = _pipeline(database, schema, sink, kafka.bootstrap_servers, lake)
        spark = pipeline.session()
        stack.callback(spark.stop)
        step("Spark")
        pipeline.run(spark)
        for table in tables:
            frame = pipeline.read(f"{database}_{schema}.{table.name}", spark=spark)
            stored = sort_rows(frame.selectExpr(*table.lake).collect())
            printed = f"select {', '.join(table.database)} from {schema}.{table.name}"  # noqa: S608 - likewise
            expected = sort_rows(query(printed))
            if stored != expected:
                raise SystemExit(f"{variant}: {table.name} differs from the database")
        step("all tables true")


def _pipeline(database: str, schema: str, sink: str, broker: str, lake: str) -> Pipeline:
    """Return a pipeline of all tables of a schema into one sink."""
    from headrace import Pipeline

    return Pipeline.from_dict(
        {
            "name": database,
            "source": {
                "kafka": {
                    "bootstrap.servers": broker,
                    "subscribePattern": f"{database}[.]{schema}[.].*",
                },
                "value": {"json": {}},
            },
            "tables": [{"source": "*", "target": "{db}_{schema}.{table}"}],
            "transforms": [{"unwrap": {}}],
            "sink": {sink: {"warehouse" if sink == "iceberg" else "path": f"{lake}/{sink}"}},
            "checkpoint": f"{lake}/checkpoint",
        }
    )


_Database = tuple[Callable[[str], list[tuple[Any, ...]]], list[Printed], dict[str, str]]


def _pagila(stack: ExitStack, _: Any) -> _Database:
    from headrace_demo.live import pagila
    from headrace_stack import Postgres

    postgres = stack.enter_context(Postgres())
    with closing(postgres.connect()) as connection:
        pagila.load(connection)
    settings = {"publish.via.partition.root": "true", "table.exclude.list": "public[.]payment_p.*"}
    return (
        postgres.query,
        databases.describe_postgres_tables(postgres.query, "public"),
        {**postgres.debezium("pagila"), **settings},
    )


def _sakila(stack: ExitStack, kafka: Any) -> _Database:
    from headrace_stack import MariaDb

    mariadb = stack.enter_context(MariaDb())
    mariadb.execute(databases.sakila())
    connector = {**mariadb.debezium("sakila", kafka.bootstrap_servers), "database.include.list": "sakila"}
    return mariadb.query, databases.describe_mariadb_tables(mariadb.query, "sakila"), connector


def _report(results: list[Result]) -> str:
    """Format a row per variant and round: wall s / CPU s of each step, and the peak memory."""
    lines = [f"| variant | {' | '.join(_STEPS)} | peak MiB | others' CPU s |", "|---" * (len(_STEPS) + 3) + "|"]
    for variant, number in dict.fromkeys((result.variant, result.round) for result in results):
        steps = {result.step: result for result in results if (result.variant, result.round) == (variant, number)}
        cells = [f"{steps[step].wall_s:.1f} / {steps[step].cpu_s:.1f}" for step in _STEPS]
        total = steps["total"]
        lines.append(f"| {variant} | {' | '.join(cells)} | {total.peak_mib:,.0f} | {total.others_cpu_s} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
