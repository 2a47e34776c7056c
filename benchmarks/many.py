"""Many tables of one database: in one run, mostly idle, next to a hot table, over many batches.

    python -m benchmarks.many runs   --work FOLDER [--tables 7] [--rows 2000]
    python -m benchmarks.many idle   --work FOLDER [--tables 200] [--active 5] [--batches 20]
    python -m benchmarks.many hot    --work FOLDER [--rows 1000000] [--limit 100000] [--by-lag]
    python -m benchmarks.many growth --work FOLDER [--tables 7] [--batches 200] [--every 50]

``runs``: one run of all tables against one run per table, from exec to exit. ``idle``: batches of the active tables, with all others
and alone. ``hot``: age of the rows of a quiet table when they are readable, while another table has a backlog. ``growth``: resources
of a run after a number of batches. Kafka runs on this machine, and the sink is Iceberg.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from headrace import Pipeline
from headrace.progress.model import BatchProgress
from headrace_sources.transports.kafka_shares import FairShares
from headrace_stack import Kafka
from headrace_stack.servers.kafka import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.engine.run.query import Query

#: Warm-up batches.
WARM = 10
_SECONDS = 600


@dataclass(frozen=True)
class Held:
    """Resources of a run after a number of batches. ``heap``: bytes after a collection; ``sockets``: open files of Python."""

    batches: int
    threads: int
    heap: int
    sockets: int
    files: int

    def __str__(self) -> str:
        return (
            f"{self.batches} batches: {self.threads} Java threads, heap {self.heap / 2**20:.0f} MiB, {self.sockets} open files, "
            f"{self.files} checkpoint files"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one measurement and print a line."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("what", choices=_MEASURES)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--tables", type=int)
    cli.add_argument("--active", type=int, default=5)
    cli.add_argument("--rows", type=int)
    cli.add_argument("--batches", type=int)
    cli.add_argument("--every", type=int, default=50, help="batches between two samples")
    cli.add_argument("--limit", type=int, default=100_000, help="maxOffsetsPerTrigger, with a hot table")
    cli.add_argument("--by-lag", action="store_true", help="share records by lag, as Spark does")
    cli.add_argument("--child", nargs=2, metavar=("BROKER", "PATTERN"), help=argparse.SUPPRESS)
    options = cli.parse_args(arguments)
    options.work = options.work.resolve()
    if options.child:
        broker, pattern = options.child
        _pipeline(broker, pattern, options.work).run()
        return
    shutil.rmtree(options.work, ignore_errors=True)
    with Kafka() as kafka:
        print(_MEASURES[options.what](kafka, options), flush=True)


def _runs(kafka: Kafka, options: argparse.Namespace) -> str:
    tables, rows = options.tables or 7, options.rows or 2000
    for number in range(tables):
        kafka.produce(_topic(number), *changes(0, rows))
    together = _time_run(kafka, ".*", options.work / "one")
    apart = [_time_run(kafka, f"t{number}", options.work / f"of{number}") for number in range(tables)]
    return f"{tables} tables of {rows} rows: one run {together:.1f} s, {tables} runs {sum(apart):.1f} s: {together / sum(apart):.2f}"


def _time_run(kafka: Kafka, table: str, folder: Path) -> float:
    """Return the seconds of a run in its own process."""
    command = [sys.executable, "-m", "benchmarks.many", "runs", "--work", str(folder), "--child"]
    began = time.monotonic()
    subprocess.run([*command, kafka.bootstrap_servers, f"many[.]public[.]{table}"], check=True, stdout=sys.stderr)
    return time.monotonic() - began


def _idle(kafka: Kafka, options: argparse.Namespace) -> str:
    tables, batches = options.tables or 200, options.batches or 20
    for number in range(tables):
        kafka.produce(_topic(number), *changes(0, 1))
    active = [_topic(number) for number in range(options.active)]
    times = []
    for some in (options.active, tables):
        there = sum(sum(kafka.end_offsets(_topic(number)).values()) for number in range(some))
        pattern = f"t({'|'.join(map(str, range(some)))})"
        with _start(kafka, pattern, options.work / f"of{some}") as (_, query, done):
            _await(partial(lambda done, there: _rows(done) >= there, done, there), query)
            times.append(
                [_time_batch(kafka, query, done, active, turn) for turn in range(1, WARM + batches + 1)][WARM:]
            )
    alone, beside = (statistics.median(seconds) for seconds in times)
    return f"{options.active} active tables: {alone:.2f} s alone, {beside:.2f} s of {tables}: {beside / alone:.2f}"


def _time_batch(
    kafka: Kafka, query: "Query", done: list[tuple[float, BatchProgress]], topics: Sequence[str], turn: int
) -> float:
    """Return the seconds until simultaneous changes of these tables are readable; each turn is newer than the last."""
    want, began = _rows(done) + 20 * len(topics), time.time()
    for topic in topics:
        kafka.produce(topic, *changes(turn * 20, 20))
    _await(lambda: _rows(done) >= want, query)
    return done[-1][0] - began


def _hot(kafka: Kafka, options: argparse.Namespace) -> str:
    hot, quiet, rows = _topic(0), _topic(1), options.rows or 1_000_000
    kafka.create_topic(hot, partitions=2)
    for first in range(0, rows, 100_000):
        kafka.produce(hot, *changes(first, min(100_000, rows - first)))
    kafka.produce(quiet, *changes(0, 1))
    produced: list[float] = []
    with (
        _by_lag() if options.by_lag else nullcontext(),
        _start(kafka, ".*", options.work, maxOffsetsPerTrigger=options.limit) as (_, query, done),
    ):
        _await(lambda: _rows(done) > 0, query)
        while query.is_active and _rows(done, hot) < rows:
            produced.append(time.time())
            kafka.produce(quiet, *changes(len(produced), 1))
            time.sleep(0.2)
        _await(lambda: _rows(done, quiet) > len(produced), query)
    ages = sorted(ages_of(produced, [(when, _rows([(when, batch)], quiet)) for when, batch in done]))
    return (
        f"{rows:,} rows wait, {'shared by lag' if options.by_lag else 'shared fairly'}: age of {len(ages)} quiet rows "
        f"median {statistics.median(ages):.1f} s, p95 {ages[int(len(ages) * 0.95) - 1]:.1f} s; "
        f"batches median {statistics.median(batch.seconds for _, batch in done):.1f} s"
    )


def ages_of(produced: Sequence[float], batches: Sequence[tuple[float, int]]) -> list[float]:
    """Return the age of each row at the end of its batch, without the first row. ``batches``: end time and number of rows."""
    readable = list(chain.from_iterable([when] * rows for when, rows in batches))[1:]
    return [seen - since for since, seen in zip(produced, readable, strict=False)]


def _growth(kafka: Kafka, options: argparse.Namespace) -> str:
    tables, batches = options.tables or 7, options.batches or 200
    topics = [_topic(number) for number in range(tables)]
    for topic in topics:
        kafka.produce(topic, *changes(0, 1))
    held = []
    with _start(kafka, ".*", options.work) as (spark, query, done):
        for turn in range(1, batches + 1):
            _time_batch(kafka, query, done, topics, turn)
            if turn % options.every == 0:
                held.append(_look(spark, len(done), options.work))
                print(held[-1], file=sys.stderr, flush=True)
    return f"{tables} tables\n" + "\n".join(map(str, held))


def _look(spark: "SparkSession", batches: int, folder: Path) -> Held:
    java: Any = spark._jvm.java.lang  # type: ignore[union-attr]  # noqa: SLF001
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    files = sum(path.is_file() for path in (folder / "checkpoint").rglob("*"))
    threads = len(java.Thread.getAllStackTraces())
    sockets = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return Held(batches, threads, runtime.totalMemory() - runtime.freeMemory(), sockets, files)


@contextmanager
def _start(
    kafka: Kafka, pattern: str, folder: Path, **source: Any
) -> "Iterator[tuple[SparkSession, Query, list[tuple[float, BatchProgress]]]]":
    """Start a continuous run in its own session; it records when each batch ended."""
    done: list[tuple[float, BatchProgress]] = []
    pipeline = _pipeline(kafka.bootstrap_servers, f"many[.]public[.]{pattern}", folder, **source)
    spark = pipeline.session()
    query = pipeline.start(spark, "100 ms", on_progress=lambda batch: done.append((time.time(), batch)))
    try:
        yield spark, query, done
    finally:
        query.stop()
        spark.stop()


def _pipeline(broker: str, pattern: str, folder: Path, **source: Any) -> Pipeline:
    return Pipeline.from_dict(
        {
            "name": "many",
            "source": {
                "kafka": {"bootstrap.servers": broker, "subscribePattern": pattern, **source},
                "value": {"json": {}},
            },
            "tables": [{"source": "many.*", "target": "{schema}.{table}"}],
            "transforms": [{"unwrap": {}}],
            "sink": {"iceberg": {"warehouse": str(folder / "lake")}},
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"spark.master": "local[2]", "spark.driver.memory": "3g"},
        }
    )


def changes(first: int, count: int) -> list[Record]:
    """Make new or updated rows, newer than all earlier ones."""
    records = []
    for number in range(first, first + count):
        row = {"id": number, "name": f"row {number}", "price": number / 100}
        source = {
            "connector": "postgresql",
            "ts_ms": 1,
            "lsn": number + 1,
            "sequence": f'["{number + 1}","{number + 1}"]',
        }
        value = json.dumps({"before": None, "after": row, "source": source, "op": "c"})
        records.append(Record(value.encode(), key=json.dumps({"id": number}).encode()))
    return records


def _topic(number: int) -> str:
    return f"many.public.t{number}"


def _rows(done: Sequence[tuple[float, BatchProgress]], topic: str | None = None) -> int:
    """Return the number of received rows of all tables or of one."""
    table = topic and topic.removeprefix("many.")
    return sum(t.rows_in or 0 for _, batch in done for t in batch.tables if table in (None, t.table))


class _LagShares(FairShares):
    """Shares of records as planned by Spark."""

    def _choose_end(self, _batch: int, _start: Any, _planned_start: Any, planned_end: Any) -> Any:
        return planned_end


_by_lag: Callable[[], Any] = partial(patch, "headrace_sources.transports.kafka.FairShares", _LagShares)


def _await(is_true: Callable[[], bool], query: "Query") -> None:
    deadline = time.monotonic() + _SECONDS
    while not is_true():
        if time.monotonic() > deadline or not query.is_active:
            raise SystemExit(f"no progress: {query.status} {query.exception}")
        time.sleep(0.02)


_MEASURES: dict[str, Callable[[Kafka, argparse.Namespace], str]] = {
    "runs": _runs,
    "idle": _idle,
    "hot": _hot,
    "growth": _growth,
}

if __name__ == "__main__":
    main()
