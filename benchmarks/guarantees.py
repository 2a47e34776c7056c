"""Cost of each guarantee: the museum's history into Iceberg, without one guarantee at a time.

    python -m benchmarks.guarantees --moma FOLDER --work FOLDER [--every N] [--repeat 9]

One process runs everything after three warm-up rounds; on a cold JVM, compilation would dominate the times and their differences.
The time is that of the three steps. Each variant runs once per round.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks import prepare
from benchmarks.run import KEY, SPARK, STEPS, Run

from headrace import Pipeline
from headrace.sdk.positions import position
from headrace.upsert import unavailable
from headrace_sinks.iceberg import iceberg_sink as iceberg
from headrace_sinks.iceberg.table_handle import TableHandle
from headrace_sources.dialects import debezium

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING = "none of them"


def _no_order() -> AbstractContextManager[object]:
    """Order changes by their location in the files."""
    return patch.object(debezium, "source_position", lambda _fields, _field, place: position(place=place))


def _no_search() -> AbstractContextManager[object]:
    """Skip the search for unavailable values."""
    return patch.object(unavailable, "refused", lambda changes, _tests: changes)


@contextmanager
def _no_mark() -> Iterator[None]:
    """Write and check no record of applied batches."""
    with (
        patch.object(iceberg, "commit_with_mark", lambda _spark, _batch, work: work()),
        patch.object(TableHandle, "is_applied", lambda _handle, _batch: False),
    ):
        yield


#: Guarantee → context without it. An option of the pipeline disables deleted keys.
GUARANTEES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "the database's order": _no_order,
    "deleted keys": nullcontext,
    "unavailable values": _no_search,
    "marks of batches": _no_mark,
}
ALL = "all of them"
VARIANTS = (ALL, *(f"without {name}" for name in GUARANTEES), NOTHING)
#: Warm-up runs.
WARM = 3


def main() -> None:
    """Run all variants and print a table."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--moma", type=Path, required=True)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--every", type=int, default=1)
    cli.add_argument("--repeat", type=int, default=9)
    options = cli.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    bronze, _ = prepare.bronze(options.moma, work, options.every)
    spark = Pipeline.from_dict(_config(work)).session()
    time_variant = partial(_time_variant, spark, bronze, work, set())
    for _ in range(WARM):
        time_variant(ALL)
    times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for number in range(options.repeat):
        # Each variant is first equally often.
        for variant in (*VARIANTS[number % len(VARIANTS) :], *VARIANTS[: number % len(VARIANTS)]):
            times[variant].append(time_variant(variant))
        print({variant: round(seconds[-1], 2) for variant, seconds in times.items()}, flush=True)
    spark.stop()
    print("\n| variant | s | to none of them (middle half) |\n|---|---|---|")
    for variant, every in times.items():
        ratios = [seconds / base for seconds, base in zip(every, times[NOTHING], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        print(f"| {variant} | {statistics.median(every):.1f} | {middle:.2f} ({low:.2f} to {high:.2f}) |")


def _time_variant(spark: "SparkSession", bronze: Path, work: Path, rows: set[int], variant: str) -> float:
    """Return the seconds of the three steps into a new table. ``rows`` collects the row counts, which must be equal."""
    folder = Path(tempfile.mkdtemp(dir=work))  # no session has seen it
    run = Run(variant, 1, bronze, folder, folder / "results.jsonl")
    left_out = [name for name in GUARANTEES if variant in (f"without {name}", NOTHING)]
    keeps_deleted_keys = "deleted keys" not in left_out
    run.landing.mkdir()
    pipeline = Pipeline.from_dict(
        {**_config(folder), **({} if keeps_deleted_keys else {"delete.retention": "0 seconds"})}
    )
    spent = 0.0
    with ExitStack() as stack:
        for name in left_out:
            stack.enter_context(GUARANTEES[name]())
        for step in STEPS:
            run.land("envelope", step)
            began = time.monotonic()
            pipeline.run(spark)
            spent += time.monotonic() - began
    rows.add(pipeline.read("db.artworks", spark=spark).count())
    assert len(rows) == 1, f"the tables differ: {rows}"
    shutil.rmtree(folder)
    return spent


def _config(folder: Path) -> dict[str, Any]:
    return {
        "name": "moma",
        "source": {"files": {"path": str(folder / "landing"), "format": "avro"}},
        "tables": [{"source": "moma.public.artworks", "key": KEY, "target": "db.artworks"}],
        "transforms": [{"unwrap": {}}],
        "sink": {"iceberg": {"warehouse": str(folder / "lake")}},
        "checkpoint": str(folder / "checkpoint"),
        "spark": SPARK,
    }


if __name__ == "__main__":
    main()
