"""Time of a batch of 10,000 changes with a view, by the size of the tables.

    python -m benchmarks.views --work FOLDER [--rows 100000,2000000] [--batches 5] [--rounds 2]

The view has the totals of customers: a join of orders and a tenth as many customers, with a sum, a count and a maximum. Each batch changes
10,000 random orders. The variants take turns: no view, a view that computes touched keys, and the same view computed whole.
"""

import argparse
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import Pipeline
from headrace.progress.model import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS, CUSTOMERS, VIEW = "shop.orders", "shop.customers", "shop.totals"
SQL = """
    SELECT c.id AS customer_id, c.region, COUNT(*) AS orders, SUM(o.amount) AS total, MAX(o.amount) AS most
    FROM shop.orders o JOIN shop.customers c ON o.customer_id = c.id GROUP BY c.id, c.region
"""
#: Variant → value of ``recompute``; None: no view.
VARIANTS: dict[str, str | None] = {"no view": None, "touched keys": "touched", "whole view": "full"}
CHANGES = 10_000
#: Batches that are not measured: they load classes, and compute the view for the first time.
WARM = 2
#: Orders of one customer.
_ORDERS_PER_CUSTOMER = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the median seconds of a batch and of the view's part, for each size and variant."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--rows", default="100000,2000000", help="orders; the first number is the reference")
    cli.add_argument("--batches", type=int, default=5, help="measured batches of each round")
    cli.add_argument("--rounds", type=int, default=2)
    options = cli.parse_args(arguments)
    sizes = [int(size) for size in options.rows.split(",")]
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    spark = make_pipeline(options.work.resolve(), None).session()
    for _ in range(options.rounds):
        for size in sizes:
            for variant, recompute in VARIANTS.items():
                folder = options.work.resolve() / f"{size}-{variant.replace(' ', '-')}"
                times = measure(spark, folder, size, options.batches, recompute)
                found.setdefault((size, variant), []).extend(times)
    for line in report(found):
        print(line)


def report(found: dict[tuple[int, str], list[tuple[float, float]]]) -> list[str]:
    """Return a line for each size and variant: medians, and the lowest and highest time of a batch."""
    lines = []
    for (size, variant), times in found.items():
        batches, views = zip(*times, strict=True)
        spread = f"{min(batches):.2f} to {max(batches):.2f}"
        lines.append(
            f"{size:,} orders, {variant}: batch {statistics.median(batches):.2f} s ({spread}), "
            f"view {statistics.median(views):.2f} s"
        )
    return lines


def make_pipeline(folder: Path, recompute: str | None) -> Pipeline:
    """Return the pipeline of a variant."""
    tables = [{"source": topic, "key": ["id"], "order.by": ["version"]} for topic in (ORDERS, CUSTOMERS)]
    view = {"name": VIEW, "key": "customer_id", "sql": SQL, "recompute": recompute}
    return Pipeline.from_dict(
        {
            "name": "views",
            "source": {"files": {"path": str(folder / "bronze"), "format": "parquet", "maxFilesPerTrigger": 2}},
            "tables": tables,
            "sink": {"iceberg": {"warehouse": str(folder / "lake")}},
            "maintenance": {"enabled": False},
            "checkpoint": str(folder / "checkpoint"),
            **({"views": [view]} if recompute else {}),
        }
    )


def measure(
    spark: "SparkSession", folder: Path, size: int, batches: int, recompute: str | None
) -> list[tuple[float, float]]:
    """Return the seconds of each measured batch, and of the view's part."""
    shutil.rmtree(folder, ignore_errors=True)
    found: list[BatchProgress] = []
    for turn in range(1 + WARM + batches):
        deliver(spark, folder, size, turn)
        make_pipeline(folder, recompute).run(spark, on_progress=found.append)
    shutil.rmtree(folder)
    measured = [batch for batch in found if any(t.table == ORDERS and t.rows_in for t in batch.tables)][1 + WARM :]
    assert len(measured) == batches, f"{len(measured)} batches"
    return [(batch.seconds, sum(t.seconds for t in batch.tables if t.table == VIEW)) for batch in measured]


def deliver(spark: "SparkSession", folder: Path, size: int, turn: int) -> None:
    """Write the tables, or a file with new amounts and customers of random orders."""
    customers = size // _ORDERS_PER_CUSTOMER
    if turn == 0:
        regions = spark.range(customers).selectExpr("id", "concat('region ', id % 50) AS region", "0L AS version")
        write_file(regions, folder, CUSTOMERS, turn)
    ids: Any = spark.range(size) if turn == 0 else spark.range(CHANGES)
    order = "id" if turn == 0 else f"pmod(xxhash64(id, {turn}), {size})"
    rows = ids.selectExpr(
        f"{order} AS id",
        f"pmod(xxhash64(id, {turn}, 1), {customers}) AS customer_id",
        f"pmod(xxhash64(id, {turn}, 2), 10000) AS amount",
        f"CAST({turn} AS BIGINT) AS version",
    )
    write_file(rows.dropDuplicates(["id"]), folder, ORDERS, turn)


def write_file(rows: "DataFrame", folder: Path, topic: str, turn: int) -> None:
    """Write one Parquet file of a topic."""
    staged = folder / "staged"
    rows.coalesce(1).write.mode("overwrite").parquet(str(staged))
    (file,) = staged.glob("*.parquet")
    target = folder / "bronze" / topic / f"{topic}+0+{turn:010d}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    file.rename(target)


if __name__ == "__main__":
    main()
