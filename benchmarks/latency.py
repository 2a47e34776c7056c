"""Latency from a commit in PostgreSQL to a readable row, for single changes at a constant rate.

For each change, the benchmark finds the first version of the table that has it. The end of that version's batch is the time at
which the row was readable. PostgreSQL, Debezium, Kafka and headrace run on this machine.
"""

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace import Pipeline
from headrace.progress.model import BatchProgress
from headrace_stack import Connect, Kafka, Postgres

ROWS = 1000
TABLE = "bench.orders"
_SETUP = """
drop schema if exists bench cascade;
create schema bench;
create table bench.orders (id int primary key, n int not null, name text, price numeric(10,2), at timestamptz);
insert into bench.orders select i, 0, 'order ' || i, i / 100.0, now() from generate_series(1, 1000) i;
"""
JSON = {
    f"{part}.converter{option}": value
    for part in ("key", "value")
    for option, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
}


def main() -> None:
    """Measure one sink and print a line."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--changes", type=int, default=200)
    cli.add_argument("--rate", type=float, default=20, help="changes per second")
    cli.add_argument("--warm", type=float, default=240, help="seconds of changes before the measurement")
    cli.add_argument("--sink", required=True, choices=("iceberg", "hudi"))
    cli.add_argument("--trigger", default=None, help="default: headrace's own")
    cli.add_argument(
        "--readers", nargs="*", default=[], help="as with readers: […]; spark: Iceberg rows are replaced by key"
    )
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    with Kafka() as kafka, Postgres() as postgres, Connect(kafka) as connect:
        print(json.dumps(_measure(arguments.sink, arguments, kafka, postgres, connect)))


def _measure(
    sink: str, arguments: argparse.Namespace, kafka: Kafka, postgres: Postgres, connect: Connect
) -> dict[str, Any]:
    name = f"latency_{sink}"
    postgres.execute(_SETUP)
    settings = {"schema.include.list": "bench", "poll.interval.ms": "10", **JSON}
    connect.put(name, {**postgres.debezium(name), **settings})
    folder = arguments.work / sink
    pipeline = _pipeline(name, sink, kafka, folder, arguments.readers)
    spark = pipeline.session()
    done: list[tuple[float, BatchProgress]] = []
    query = pipeline.start(spark, arguments.trigger, on_progress=lambda batch: done.append((time.time(), batch)))
    _wait_until(lambda: _records(done) >= ROWS, query)
    connection = postgres.connect()
    connection.autocommit = True
    # A stream runs for months, and the JVM needs minutes to warm up.
    warm = time.monotonic() + arguments.warm
    while time.monotonic() < warm:
        _change(connection, ROWS, int(warm - time.monotonic()) + 2)
        time.sleep(1 / arguments.rate)
    time.sleep(5)
    committed: dict[int, float] = {}
    first, began = len(done), time.time()
    for change in range(arguments.changes):
        time.sleep(max(0.0, began + change / arguments.rate - time.time()))
        _change(connection, change + 1, 1)
        committed[change + 1] = time.time()
    before = _records(done[:first])
    _wait_until(lambda: _records(done) >= before + arguments.changes, query)
    query.stop()
    connect.delete(name)
    readable: dict[int, float] = {}
    batches = [(when, batch.tables[0]) for when, batch in done[first:] if batch.tables]
    for when, table in batches:
        rows = pipeline.read(TABLE, as_of=table.version, spark=spark).where("n = 1").select("id").collect()
        for (id_,) in rows:
            readable.setdefault(id_, when)
    waits = sorted(readable[id_] - when for id_, when in committed.items())
    spark.stop()
    shares = {f"p{share}": round(waits[int(len(waits) * share / 100) - 1], 2) for share in (50, 95, 100)}
    seconds = sorted(table.seconds for _, table in batches)
    return {"sink": sink, **shares, "batches": len(batches), "batch_p50": seconds[len(seconds) // 2]}


def _pipeline(name: str, sink: str, kafka: Kafka, folder: Path, readers: Sequence[str]) -> Pipeline:
    return Pipeline.from_dict(
        {
            "name": name,
            "source": {
                "kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.].*"},
                "value": {"json": {}},
            },
            "tables": [{"source": f"{name}.*", "target": "{schema}.{table}"}],
            "transforms": [{"unwrap": {}}],
            "sink": {
                sink: {"warehouse" if sink == "iceberg" else "path": str(folder / "lake"), "readers": list(readers)}
            },
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"spark.master": "local[2]", "spark.driver.memory": "4g"},
        }
    )


def _records(done: list[tuple[float, BatchProgress]]) -> int:
    return sum(batch.tables[0].rows_in or 0 for _, batch in done if batch.tables)


def _change(connection: Any, id_: int, value: int) -> None:
    connection.run("update bench.orders set n = :n, at = clock_timestamp() where id = :id", n=value, id=id_)


def _wait_until(is_true: Any, query: Any) -> None:
    deadline = time.monotonic() + 300
    while not is_true():
        if time.monotonic() > deadline or not query.is_active:
            raise SystemExit(f"no progress: {query.status} {query.exception}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
