"""Growth of a table with its commits, with and without maintenance.

    python -m benchmarks.growth iceberg|hudi --work FOLDER [--batches 200] [--rows 100000] [--history "1 hour"] [--no-maintenance]
        [--readers spark]

The sink creates the table. Then one run applies files of 200 updates of random rows, one file per batch, like a continuous stream.
At the end a full scan of the table is compared with a full scan of a copy that was written in one commit.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import Pipeline
from headrace.progress.maintained import Maintained
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.positions import in_epoch, position, sortable
from headrace.sdk.sink import Batch, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPDATES = 200
TOPIC, TABLE, COPY = "shop.public.orders", "shop.orders", "shop.copy"
#: Sink → its option for the location of tables.
SINKS = {"iceberg": "warehouse", "hudi": "path"}
#: Number of batches in a median.
SPAN = 50


@dataclass(frozen=True)
class Growth:
    """Result of a run: seconds of each batch, of maintenance and in total, and the size of the final table.

    ``failed`` counts failed maintenance steps.
    """

    batches: Sequence[float]
    maintenance: float
    seconds: float
    files: int
    bytes: int
    scan: float
    copy_scan: float
    failed: int = 0

    def __str__(self) -> str:
        spans = [self.batches[at : at + SPAN] for at in range(0, len(self.batches), SPAN)]
        medians = " / ".join(f"{statistics.median(span):.2f}" for span in spans)
        p95 = sorted(self.batches)[max(0, round(len(self.batches) * 0.95) - 1)]
        return (
            f"batches, median of each {SPAN}: {medians} s, p95 {p95:.2f} s; maintenance {self.maintenance / self.seconds:.0%} "
            f"of the time, {self.failed} steps failed; {self.files:,} files, {self.bytes / 2**20:,.1f} MiB; scan {self.scan:.2f} s, "
            f"{self.scan / self.copy_scan:.1f} of a copy's"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Grow a table and print the result."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("sink", choices=SINKS)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--batches", type=int, default=200)
    cli.add_argument("--rows", type=int, default=100_000)
    cli.add_argument("--no-maintenance", action="store_true", help="as with maintenance: {enabled: false}")
    cli.add_argument("--history", default="1 hour", help="how long older versions can be read")
    cli.add_argument(
        "--readers", nargs="*", default=[], help="as with readers: […]; spark: Iceberg rows are replaced by key"
    )
    options = cli.parse_args(arguments)
    folder = options.work.resolve() / f"{options.sink}{'-alone' if options.no_maintenance else ''}"
    shutil.rmtree(folder, ignore_errors=True)
    maintenance = {"enabled": not options.no_maintenance, "history": options.history}
    grown = grow(options.sink, folder, options.batches, options.rows, maintenance, options.readers)
    print(f"{options.sink}, {'not maintained' if options.no_maintenance else 'maintained'}: {grown}")


def grow(
    sink: str, folder: Path, batches: int, rows: int, maintenance: dict[str, Any], readers: Sequence[str] = ()
) -> Growth:
    """Measure a table of a number of rows after a number of batches."""
    pipeline = _pipeline(sink, folder, maintenance, readers)
    spark = pipeline.session()
    table = Table(TABLE, ("id",))
    pipeline.sinks[0].write(table, make_rows(spark, rows), Batch("fill", 0, "upsert"))
    for turn in range(batches):
        deliver(folder, rows, turn)
    seconds: list[float] = []
    maintained: list[Maintained] = []
    began = time.monotonic()
    query = pipeline.start_available_now(
        spark,
        on_progress=lambda progress: seconds.append(progress.seconds),
        on_maintenance=maintained.append,
    )
    query.await_termination()
    total = time.monotonic() - began
    assert len(seconds) == batches, f"{len(seconds)} batches"
    lake = [path for path in (folder / "lake").rglob("*") if path.is_file()]
    files, size = len(lake), sum(path.stat().st_size for path in lake)
    stored = pipeline.sinks[0].read_back(spark, table)
    rows_now = stored.select("id", "turn", "note", POSITION).withColumn(DELETED, stored["id"].isNull()).cache()
    pipeline.sinks[0].write(Table(COPY, ("id",)), rows_now, Batch("copy", 0, "upsert"))
    rows_now.unpersist()
    scan, copy_scan = (_scan(pipeline, spark, name) for name in (TABLE, COPY))
    failed = [done for done in maintained if done.error is not None]
    for done in failed:
        print(done)
    in_all = sum(done.seconds for done in maintained)
    return Growth(seconds, in_all, total, files, size, scan, copy_scan, len(failed))


def _pipeline(sink: str, folder: Path, maintenance: dict[str, Any], readers: Sequence[str]) -> Pipeline:
    return Pipeline.from_dict(
        {
            "name": "growth",
            "source": {"files": {"path": str(folder / "bronze"), "format": "json", "maxFilesPerTrigger": 1}},
            "tables": [{"source": TOPIC, "key": ["id"], "target": TABLE}],
            "transforms": [{"unwrap": {}}],
            "sink": {sink: {SINKS[sink]: str(folder / "lake"), "readers": list(readers)}},
            "maintenance": maintenance,
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"spark.driver.memory": "4g"},
        }
    )


def make_rows(spark: "SparkSession", rows: int) -> "DataFrame":
    """Make rows that are older than all updates, in the format of a sink."""
    from pyspark.sql import functions as F

    number = F.col("id")
    made: DataFrame = spark.range(rows).select(
        "id",
        F.lit(0).cast("bigint").alias("turn"),
        F.sha2(number.cast("string"), 256).alias("note"),
        F.lit(False).alias(DELETED),
        in_epoch(position(sortable(number), place=F.lit("")), 0).alias(POSITION),
    )
    return made.coalesce(2)


def deliver(folder: Path, rows: int, turn: int) -> None:
    """Write a file of updates that are newer than all earlier ones."""
    dice = random.Random(turn)  # noqa: S311
    lines = []
    for at, key in enumerate(dice.sample(range(rows), min(UPDATES, rows))):
        lsn = 10**12 + turn * UPDATES + at
        row = {"id": key, "turn": turn + 1, "note": f"{dice.getrandbits(256):064x}"}
        source: dict[str, Any] = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        lines.append(json.dumps({"before": None, "after": row, "source": source, "op": "u"}))
    bronze = folder / "bronze" / TOPIC / "partition=0"
    bronze.mkdir(parents=True, exist_ok=True)
    file = bronze / f"{TOPIC}+0+{turn * UPDATES:010d}.json"
    file.write_text("\n".join(lines) + "\n")
    os.utime(file, (1_700_000_000 + turn, 1_700_000_000 + turn))  # the oldest is taken first


def _scan(pipeline: Pipeline, spark: "SparkSession", name: str) -> float:
    """Return the median seconds of three full scans."""
    times = []
    for _ in range(4):
        began = time.monotonic()
        frame = pipeline.sinks[0].read_back(spark, Table(name, ("id",)))
        frame.selectExpr("sum(hash(id, turn, note))").collect()
        times.append(time.monotonic() - began)
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
