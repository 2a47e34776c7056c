"""Time of a batch of 10,000 changes, with a history or a change feed in a second table.

    python -m benchmarks.second_tables --work FOLDER [--rows 100000] [--sinks iceberg,hudi,delta] [--batches 5] [--rounds 2]

Each batch updates 10,000 random orders of ten columns. The variants take turns.
"""

import argparse
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.views import CHANGES, ORDERS, WARM, write_file

from headrace import Pipeline
from headrace.progress.model import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Variant → options of the sink.
VARIANTS: dict[str, dict[str, Any]] = {
    "current rows": {},
    "changes: true": {"changes": True},
    "mode: history": {"mode": "history"},
    "mode: both": {"mode": "both"},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the median seconds of a batch for each sink and variant, and the ratio to current rows alone."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--rows", type=int, default=100_000)
    cli.add_argument("--sinks", default="iceberg,hudi,delta")
    cli.add_argument("--batches", type=int, default=5, help="measured batches of each round")
    cli.add_argument("--rounds", type=int, default=2)
    options = cli.parse_args(arguments)
    work, sinks = options.work.resolve(), options.sinks.split(",")
    spark = make_pipeline(work, {sink: {} for sink in sinks}).session()
    for sink in sinks:
        found: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for _ in range(options.rounds):
            for variant, changed in VARIANTS.items():
                found[variant] += measure(spark, work / "run", {sink: changed}, options.rows, options.batches)
        base = statistics.median(found["current rows"])
        for variant, times in found.items():
            median, spread = statistics.median(times), f"{min(times):.2f} to {max(times):.2f}"
            print(f"{sink}, {variant}: {median:.2f} s ({spread}), ratio {median / base:.2f}")


def make_pipeline(folder: Path, sinks: dict[str, dict[str, Any]]) -> Pipeline:
    """Return the pipeline of a variant."""
    blocks = [
        {sink: {"warehouse" if sink == "iceberg" else "path": str(folder / "lake" / sink), **options}}
        for sink, options in sinks.items()
    ]
    return Pipeline.from_dict(
        {
            "name": "second_tables",
            "source": {"files": {"path": str(folder / "bronze"), "format": "parquet", "maxFilesPerTrigger": 1}},
            "tables": [{"source": ORDERS, "key": ["id"], "order.by": ["version"]}],
            "sinks": blocks,
            "maintenance": {"enabled": False},
            "checkpoint": str(folder / "checkpoint"),
        }
    )


def measure(
    spark: "SparkSession", folder: Path, sinks: dict[str, dict[str, Any]], size: int, batches: int
) -> list[float]:
    """Return the seconds of each measured batch."""
    shutil.rmtree(folder, ignore_errors=True)
    found: list[BatchProgress] = []
    for turn in range(1 + WARM + batches):
        deliver(spark, folder, size, turn)
        make_pipeline(folder, sinks).run(spark, on_progress=found.append)
    shutil.rmtree(folder)
    measured = [batch for batch in found if any(table.rows_in for table in batch.tables)][1 + WARM :]
    assert len(measured) == batches, f"{len(measured)} batches"
    return [batch.seconds for batch in measured]


def deliver(spark: "SparkSession", folder: Path, size: int, turn: int) -> None:
    """Write all orders, or a file with new values of random orders."""
    ids: Any = spark.range(size) if turn == 0 else spark.range(CHANGES)
    order = "id" if turn == 0 else f"pmod(xxhash64(id, {turn}), {size})"
    texts = [f"concat('text {number} ', xxhash64(id, {turn}, {number})) AS note_{number}" for number in range(8)]
    rows = ids.selectExpr(f"{order} AS id", *texts, f"CAST({turn} AS BIGINT) AS version")
    write_file(rows.dropDuplicates(["id"]), folder, ORDERS, turn)


if __name__ == "__main__":
    main()
