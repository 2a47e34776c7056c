"""Cost of applying 10,000 changes to a small and to a large table.

    python -m benchmarks.size --work FOLDER --sink SINK [--rows 100000,10000000] [--repeat 3] [--readers spark]

The sink creates the tables. Then a pipeline applies files with changes of random keys: 8,000 updates, 1,000 inserts and 1,000
deletes. The time is the batch time of the progress. The first batch of each table does not count.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import Pipeline
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.positions import in_epoch, position, sortable
from headrace.sdk.sink import Batch, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES = 10_000
TOPIC, TABLE = "shop.public.orders", "shop.orders"
#: Number of Hudi buckets for the large table; it cannot be changed later.
SINKS: dict[str, dict[str, Any]] = {
    "iceberg": {"table.type": "merge-on-read"},
    "hudi": {"table.type": "MERGE_ON_READ", "hoodie.bucket.index.num.buckets": 16},
}


def main() -> None:
    """Measure a sink on each size and print the seconds of batches and their ratio."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--sink", required=True, choices=SINKS)
    cli.add_argument("--rows", default="100000,10000000")
    cli.add_argument("--repeat", type=int, default=3)
    cli.add_argument(
        "--readers", nargs="*", default=[], help="as with readers: […]; spark: Iceberg rows are replaced by key"
    )
    options = cli.parse_args()
    folders = {int(rows): options.work.resolve() / options.sink / rows for rows in options.rows.split(",")}
    pipelines = {size: _pipeline(options.sink, folder, options.readers) for size, folder in folders.items()}
    spark = next(iter(pipelines.values())).session()
    for size, pipeline in pipelines.items():
        began = time.monotonic()
        _fill(pipeline, spark, size)
        print(f"{size:,} rows written in {time.monotonic() - began:.0f} s", flush=True)
    times: dict[int, list[float]] = {size: [] for size in folders}
    for turn in range(options.repeat + 1):
        for size, pipeline in pipelines.items():
            _deliver(folders[size], size, turn)
            times[size].append(_time_batch(pipeline, spark))
    spark.stop()
    medians = {size: statistics.median(seconds[1:]) for size, seconds in times.items()}
    first = next(iter(medians.values()))
    for size, (_, *seconds) in times.items():
        spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
        print(
            f"{options.sink}, {size:,} rows: {medians[size]:.1f} s ({spread}), {medians[size] / first:.2f} of the first"
        )


def _pipeline(sink: str, folder: Path, readers: Sequence[str]) -> Pipeline:
    where = {"iceberg": "warehouse", "hudi": "path"}[sink]
    return Pipeline.from_dict(
        {
            "name": "size",
            "source": {"files": {"path": str(folder / "bronze"), "format": "json"}},
            "tables": [{"source": TOPIC, "key": ["id"], "target": TABLE}],
            "transforms": [{"unwrap": {}}],
            "sink": {sink: {where: str(folder / "lake"), "readers": list(readers), **SINKS[sink]}},
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"spark.driver.memory": "4g"},
        }
    )


def _fill(pipeline: Pipeline, spark: "SparkSession", size: int) -> None:
    from pyspark.sql import functions as F

    number = F.col("id")
    rows: DataFrame = spark.range(size).select(
        "id",
        (number % 1000).alias("account"),
        F.sha2(number.cast("string"), 256).alias("note"),
        (number / 7).alias("price"),
        F.lit(False).alias(DELETED),
        in_epoch(position(sortable(number), place=F.lit("")), 0).alias(POSITION),
    )
    # As in a snapshot of a database: keys in order, many per file.
    pipeline.sinks[0].write(Table(TABLE, ("id",)), rows.coalesce(2), Batch("fill", 0, "upsert"))


def _deliver(folder: Path, size: int, turn: int) -> None:
    """Write a file of changes that are newer than all earlier ones."""
    dice = random.Random(turn)  # noqa: S311
    keys = dice.sample(range(size), CHANGES * 9 // 10)
    lines = []
    for at in range(CHANGES):
        op = "u" if at < CHANGES * 8 // 10 else "d" if at < CHANGES * 9 // 10 else "c"
        key = size + turn * CHANGES + at if op == "c" else keys[at]
        row = {"id": key, "account": turn, "note": f"turn {turn}", "price": at / 4}
        lsn = 10**12 + turn * CHANGES + at
        source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        lines.append(json.dumps({**images, "source": source, "op": op}))
    bronze = folder / "bronze" / TOPIC / "partition=0"
    bronze.mkdir(parents=True, exist_ok=True)
    (bronze / f"{TOPIC}+0+{turn * CHANGES:010d}.json").write_text("\n".join(lines) + "\n")


def _time_batch(pipeline: Pipeline, spark: "SparkSession") -> float:
    batches: list[float] = []
    summary = pipeline.run(spark, on_progress=lambda progress: batches.append(progress.seconds))
    assert summary.tables[0].rows_in == CHANGES, summary
    return sum(batches)


if __name__ == "__main__":
    main()
