"""What each guarantee costs: the museum's history into Iceberg, each of them left out in turn.

    python -m benchmarks.guarantees --moma FOLDER --work FOLDER [--every N] [--repeat 3]

A fresh process each, the variants in turn in every round; the time is that of the three steps, without Spark's start.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import prepare
from benchmarks.run import KEY, SPARK, STEPS, Run

from headrace import Pipeline
from headrace.contracts.position import position
from headrace_history import unchanged
from headrace_sinks import iceberg
from headrace_sources import debezium

NOTHING = "none of them"


def _no_order() -> None:
    """The newest change is the one that lies last in the files."""
    setattr(debezium, "source_position", lambda _fields, _field, place: position(place=place))  # noqa: B010


def _no_comparison() -> None:
    """Nobody looks whether a value was left out."""
    setattr(unchanged, "refused", lambda changes, _tests: changes)  # noqa: B010


def _no_mark() -> None:
    """A table does not know which batches it has."""
    setattr(iceberg, "marked", lambda _spark, _mark, work: work())  # noqa: B010
    setattr(iceberg, "is_applied", lambda _java, _batch: False)  # noqa: B010


#: Guarantee → what leaves it out. The memory of removed keys is left out by the pipeline's own option.
GUARANTEES: dict[str, Callable[[], None]] = {
    "the database's order": _no_order,
    "memory of removed keys": lambda: None,
    "values that are left out": _no_comparison,
    "batches marked": _no_mark,
}
VARIANTS = ("all of them", *(f"without {name}" for name in GUARANTEES), NOTHING)


def main() -> None:
    """Runs all variants, or one when it is told which."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--moma", type=Path)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--every", type=int, default=1)
    cli.add_argument("--repeat", type=int, default=3)
    cli.add_argument("--variant", choices=VARIANTS)
    cli.add_argument("--bronze", type=Path)
    options = cli.parse_args()
    if options.variant:
        print(json.dumps(_timed(options.variant, options.bronze, options.work)))
        return
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    bronze, _ = prepare.bronze(options.moma, work, options.every)
    found: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    for _ in range(options.repeat):
        for variant in VARIANTS:
            folder = work / "guarantee"
            shutil.rmtree(folder, ignore_errors=True)
            command = [sys.executable, "-m", "benchmarks.guarantees", "--variant", variant]
            done = subprocess.run(
                [*command, "--bronze", str(bronze), "--work", str(folder)], check=True, capture_output=True, text=True
            )
            found[variant].append(json.loads(done.stdout.splitlines()[-1]))
            print(variant, found[variant][-1], flush=True)
    rows = {result["rows"] for results in found.values() for result in results}
    assert len(rows) == 1, f"the tables differ: {rows}"
    print("\n| variant | s | to none of them (lowest to highest) |\n|---|---|---|")
    for variant, results in found.items():
        ratios = [mine["seconds"] / base["seconds"] for mine, base in zip(results, found[NOTHING], strict=True)]
        seconds = statistics.median(result["seconds"] for result in results)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"| {variant} | {seconds:.1f} | {statistics.median(ratios):.2f} ({spread}) |")


def _timed(variant: str, bronze: Path, folder: Path) -> dict[str, Any]:
    left_out = [name for name in GUARANTEES if variant in (f"without {name}", NOTHING)]
    for name in left_out:
        GUARANTEES[name]()
    run = Run(variant, 1, bronze, folder, folder / "results.jsonl")
    run.landing.mkdir(parents=True)
    pipeline = Pipeline.from_dict(
        {
            "name": "moma",
            "source": {"files": {"path": str(run.landing), "format": "avro"}},
            "tables": [{"source": "moma.public.artworks", "key": KEY, "target": "db.artworks"}],
            "transforms": [{"unwrap": {}}],
            "sink": {"iceberg": {"warehouse": str(run.lake)}},
            "checkpoint": str(folder / "checkpoint"),
            "spark": SPARK,
            **({"delete.retention": "0 seconds"} if "memory of removed keys" in left_out else {}),
        }
    )
    spark = pipeline.session()
    spent = 0.0
    for step in STEPS:
        run.land("envelope", step)
        began = time.monotonic()
        pipeline.run(spark)
        spent += time.monotonic() - began
    rows = pipeline.read("db.artworks", spark=spark).count()
    spark.stop()
    return {"seconds": round(spent, 2), "rows": rows}


if __name__ == "__main__":
    main()
