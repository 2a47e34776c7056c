"""Time of ``headrace run --available-now`` for small files into an empty lake, from process start to exit.

    python -m benchmarks.first_batch --work FOLDER [--sink iceberg] [--tables 3] [--runs 8]

Each run has a new lake and the same caches. The CPU seconds include those of the JVM.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SINKS = {
    "iceberg": "{iceberg: {warehouse: LAKE}}",
    "hudi": "{hudi: {path: LAKE}}",
    "files": "{files: {path: LAKE}}",
}


def main() -> None:
    """Print the wall and CPU seconds of each run."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--sink", choices=_SINKS, default="iceberg")
    cli.add_argument("--tables", type=int, default=3)
    cli.add_argument("--runs", type=int, default=8)
    options = cli.parse_args()
    # The JVM outlives the program for a moment; its CPU time counts as well.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    folder = options.work.resolve()
    write_events(folder / "events", options.tables)
    print("| run | wall s | CPU s | s until the JVM has ended |\n|---|---|---|---|")
    for run in range(options.runs):
        print(f"| {run + 1} | {' | '.join(f'{s:.1f}' for s in run_once(folder, options.sink))} |", flush=True)


def write_events(folder: Path, tables: int) -> None:
    """Write one file of 100 inserts for each table."""
    for number in range(tables):
        file = folder / f"shop.public.t{number}" / "events.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(_insert(row, number)) + "\n" for row in range(100)))


def _insert(row: int, table: int) -> dict[str, object]:
    source = {"connector": "postgresql", "name": "shop", "schema": "public", "table": f"t{table}", "lsn": 100 + row}
    value = {"id": row, "name": f"name {row}", "price": row / 4, "is_new": row % 2 == 0}
    return {"before": None, "after": value, "source": source, "op": "c", "ts_ms": 1_700_000_000_000 + row}


def run_once(folder: Path, sink: str) -> tuple[float, float, float]:
    """Return the seconds of a run: wall, CPU, and wall until the JVM has ended."""
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    file = folder / "pipeline.yaml"
    file.write_text(
        f"name: first-batch\ncheckpoint: {lake}/checkpoint\nsource: {{files: {{path: {folder}/events, format: json}}}}\n"
        f"transforms: [unwrap: {{}}]\ntables: [{{source: 'shop.public.*', key: [id]}}]\n"
        f"sink: {_SINKS[sink].replace('LAKE', f'{lake}/tables')}\n"
    )
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program = Path(sys.executable).with_name("headrace")
    subprocess.run([program, "run", "--available-now", file], check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - clock
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, time.perf_counter() - clock


if __name__ == "__main__":
    main()
