"""Time of one rendering of the metrics and of the page with many tables, and of ``headrace status``.

    python -m benchmarks.operate --work FOLDER [--tables 200] [--runs 10]

Events of batches without Spark fill the server of `serve`, whose cache is switched off. `headrace status` reads a checkpoint in this folder, which
a run of a small pipeline writes, and is a process of its own each time.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml
from headrace_serve.serve import Serve
from tests.plugins.serve.client import ORDERS, RUNNING, ServedRun

from headrace import Pipeline
from headrace.sdk.observer import TableProgress


def main() -> None:
    """Print the medians."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--tables", type=int, default=200)
    cli.add_argument("--runs", type=int, default=10)
    options = cli.parse_args()
    measure_server(options.tables, options.runs)
    measure_status(options.work.resolve(), options.runs)


def measure_server(tables: int, runs: int) -> None:
    """Print the milliseconds and bytes of each path of the server."""
    run = ServedRun(Serve(address="127.0.0.1:0"))
    names = [f"shop.table_{number}" for number in range(tables)]
    run.status = replace(RUNNING, tables=tuple(replace(ORDERS, table=name) for name in names))
    for batch in range(50):
        run.commit(
            batch, *(TableProgress(name, "lake", rows_in=100, applied=90, late=10, latency_ms=900) for name in names)
        )
    for path in ("/metrics", "/status.json", "/", "/readyz"):
        size = len(run.get(path).text.encode())
        print(f"{path} of {tables} tables: {median_ms(partial(run.get, path), runs):.0f} ms, {size / 1024:.0f} KiB")
    run.observers.end(None)


def measure_status(work: Path, runs: int) -> None:
    """Print the seconds of `headrace status`."""
    shutil.rmtree(work, ignore_errors=True)
    topic = work / "in" / "shop.orders"
    topic.mkdir(parents=True)
    (topic / "1.json").write_text(json.dumps({"id": 1}), encoding="utf-8")
    content = {
        "name": "operate",
        "source": {"files": {"path": str(work / "in"), "format": "json"}},
        "tables": [{"source": "shop.orders", "key": ["id"], "order.by": ["id"]}],
        "sink": {"iceberg": {"warehouse": str(work / "lake")}},
        "checkpoint": str(work / "checkpoint"),
    }
    file = work / "pipeline.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    Pipeline.from_file(file).run()
    command = [sys.executable, "-m", "headrace", "status", str(file)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = median_ms(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), runs)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"headrace status: {wall:.0f} ms, {cpu / runs * 1000:.0f} ms of a processor")


def median_ms(work: Callable[[], object], runs: int) -> float:
    """Return the median milliseconds of a call."""
    found = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


if __name__ == "__main__":
    main()
