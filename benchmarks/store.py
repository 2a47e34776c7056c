"""Requests of a batch to an object store, and batch times with a delay per request.

    python -m benchmarks.store iceberg|hudi --work FOLDER [--readers spark] [--batches 24] [--milliseconds 30]

Table and checkpoint are in a store on this machine, behind a proxy that delays each request. Files of 200 updates come from the local
disk, one per batch. The requests between the ends of two batches are counted in the second half of the batches.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.growth import SINKS, TABLE, TOPIC, deliver, make_rows
from tests.support.s3_proxy import S3Proxy

from headrace import Pipeline
from headrace.progress.model import BatchProgress
from headrace.sdk.sink import Batch, Table
from headrace_stack import S3

ROWS = 20_000
#: Parts of an address that differ between batches.
_CHANGES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{20,}|\d+")


@dataclass(frozen=True)
class Interval:
    """Interval between the ends of two batches: total seconds, seconds of the batch, and requests."""

    seconds: float
    batch: float
    asked: Sequence[tuple[str, str]]


def measure(pipeline: Pipeline, proxy: S3Proxy, folder: Path, batches: int) -> list[Interval]:
    """Measure the second half of a number of batches."""
    spark = pipeline.session()
    pipeline.sinks[0].write(Table(TABLE, ("id",)), make_rows(spark, ROWS), Batch("fill", 0, "upsert"))
    for turn in range(batches):
        deliver(folder, ROWS, turn)
    intervals: list[Interval] = []
    ended = [time.monotonic()]

    def note(progress: BatchProgress) -> None:
        now = time.monotonic()
        intervals.append(Interval(now - ended[-1], progress.seconds, tuple(proxy.asked)))
        ended.append(now)
        proxy.asked.clear()

    pipeline.start_available_now(spark, on_progress=note).await_termination()
    return intervals[batches // 2 :]


def describe(intervals: Sequence[Interval]) -> str:
    """Format the medians, and the requests of a median interval."""
    typical = sorted(intervals, key=lambda interval: len(interval.asked))[len(intervals) // 2]
    places = Counter(f"{method} {_shorten(path)}" for method, path in typical.asked)
    seconds, batch = (statistics.median(getattr(i, name) for i in intervals) for name in ("seconds", "batch"))
    title = f"{len(typical.asked)} requests, {seconds:.2f} s from batch to batch, {batch:.2f} s of them the batch"
    return "\n".join([title, *(f"{count:5} {place}" for place, count in places.most_common())])


def _shorten(path: str) -> str:
    listed = re.search(r"[?&]prefix=([^&]*)", path)
    return _CHANGES.sub("n", f"(list) {listed.group(1)}" if listed else path.partition("?")[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print the requests."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("sink", choices=SINKS)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--readers", nargs="*", default=[], help="as with readers: […]; spark: Iceberg rows by key")
    cli.add_argument("--batches", type=int, default=24)
    cli.add_argument("--milliseconds", type=float, default=30)
    options = cli.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(dir=options.work.resolve()))
    with S3() as s3, S3Proxy(s3) as proxy:
        s3.create_bucket("lake")
        keys = {"fs.s3a.access.key": s3.access_key, "fs.s3a.secret.key": s3.secret_key}
        pipeline = Pipeline.from_dict(
            {
                "name": "store",
                "source": {"files": {"path": str(folder / "bronze"), "format": "json", "maxFilesPerTrigger": 1}},
                "tables": [{"source": TOPIC, "key": ["id"], "target": TABLE}],
                "transforms": [{"unwrap": {}}],
                "sink": {options.sink: {SINKS[options.sink]: "s3a://lake/silver", "readers": options.readers}},
                "checkpoint": "s3a://lake/checkpoint",
                "spark": {f"spark.hadoop.{key}": value for key, value in {**proxy.hadoop_options, **keys}.items()},
            }
        )
        proxy.delay = options.milliseconds / 1000
        print(describe(measure(pipeline, proxy, folder, options.batches)))


if __name__ == "__main__":
    main()
