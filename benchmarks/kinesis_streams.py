"""Throughput of the Kinesis source from one stream and from many, with the same shards and records, and into Iceberg tables.

::

    python -m benchmarks.kinesis_streams --work FOLDER [--streams 50] [--megabytes 50] [--repeat 3]

The server is that of ``benchmarks.kinesis``. The one stream has as many shards as the many streams together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.kinesis import CALL, RECORD, Kinesalite

from headrace import Pipeline
from headrace_sources.kinesis.kinesis_source import KinesisSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Name of the one stream, and the beginning of the names of the many.
ONE, MANY = "one", "many"
#: Rounds that warm up the JVM. They are not counted.
WARM_UP = 2


def fill(server: Kinesalite, streams: Sequence[str], shards: int, megabytes: int) -> int:
    """Create streams of some shards each and put rows into them; return the number of rows."""
    calls = max(1, megabytes * 1_000_000 // RECORD // CALL // len(streams))
    client = server.open_client("kinesis")
    for stream in streams:
        server.create(stream, shards)
        for number in range(calls):
            server.put(client, stream, number * CALL)
    return calls * CALL * len(streams)


def read_all(server: Kinesalite, spark: SparkSession, prefix: str, count: int) -> int:
    """Read a number of records in ranges of the source without writing them; return the number of ranges."""
    source = KinesisSource({"subscribePattern": f"{prefix}.*", "endpoint.url": server.endpoint_url})
    source.open(spark)
    start, found, ranges = source.initial(), 0, 0
    while found < count:
        end = source.latest(start, source.config.limit)
        found += source.read(spark, start, end).count()
        start, ranges = end, ranges + 1
    spark.catalog.clearCache()
    return ranges


def write_all(server: Kinesalite, spark: SparkSession, prefix: str, work: Path) -> int:
    """Apply all records to Iceberg tables, one for each stream; return the number of records."""
    pipeline = Pipeline.from_dict(
        {
            "name": prefix,
            "source": {
                "kinesis": {"subscribePattern": f"{prefix}.*", "endpoint.url": server.endpoint_url},
                "value": {"json": {}},
                "key": "none",
            },
            "tables": [{"source": f"/{prefix}.*/", "key": ["id"], "target": "shop.{topic}"}],
            "sink": {"iceberg": {"warehouse": str(work / "lake")}},
            "checkpoint": str(work / f"checkpoint-{prefix}"),
            "spark": {"spark.master": "local[2]"},
        }
    )
    return sum(table.rows_in or 0 for table in pipeline.run(spark).tables)


def compare(server: Kinesalite, spark: SparkSession, counts: dict[str, int], rounds: int) -> list[dict[str, Any]]:
    """Read both in turn, so that other load affects both. A ratio above 1: the many streams are faster."""
    seconds: dict[str, list[float]] = {name: [] for name in counts}
    ranges: dict[str, int] = {}
    for _ in range(rounds + WARM_UP):
        for name, count in counts.items():
            began = time.monotonic()
            ranges[name] = read_all(server, spark, name, count)
            seconds[name].append(time.monotonic() - began)
    found: list[dict[str, Any]] = [
        {"streams": name, "records/s": round(counts[name] / statistics.median(of[WARM_UP:])), "ranges": ranges[name]}
        for name, of in seconds.items()
    ]
    ratios = [one / many for one, many in zip(seconds[ONE][WARM_UP:], seconds[MANY][WARM_UP:], strict=True)]
    found.append({"ratios": [round(ratio, 2) for ratio in (statistics.median(ratios), min(ratios), max(ratios))]})
    return found


def main() -> None:
    """Print a line of JSON for each figure."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--streams", type=int, default=50)
    cli.add_argument("--megabytes", type=int, default=50)
    cli.add_argument("--repeat", type=int, default=3)
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    with Kinesalite(arguments.work) as server:
        os.environ.update(server.environment)
        many = [f"{MANY}-{number}" for number in range(arguments.streams)]
        counts = {
            ONE: fill(server, [ONE], arguments.streams, arguments.megabytes),
            MANY: fill(server, many, 1, arguments.megabytes),
        }
        spark = Pipeline.from_dict(
            {
                "name": "session",
                "source": {"kinesis": {"stream": ONE, "endpoint.url": server.endpoint_url}, "value": {"json": {}}},
                "sink": {"iceberg": {"warehouse": str(arguments.work / "lake")}},
                "checkpoint": str(arguments.work / "checkpoint"),
                "spark": {"spark.master": "local[2]"},
            }
        ).session()
        for found in compare(server, spark, counts, arguments.repeat):
            print(json.dumps({**found, "load": os.getloadavg()[0]}), flush=True)
        for name, count in counts.items():
            began = time.monotonic()
            written = write_all(server, spark, name, arguments.work)
            assert written == count
            rate = round(written / (time.monotonic() - began))
            print(json.dumps({"streams": name, "records/s into Iceberg": rate}), flush=True)


if __name__ == "__main__":
    main()
