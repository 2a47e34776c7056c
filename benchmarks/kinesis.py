"""Throughput of the Kinesis source against plain boto3 by the number of shards, and from a stream into an Iceberg table.

::

    python -m benchmarks.kinesis --work FOLDER [--shards 1 4 16] [--megabytes 96] [--repeat 3] [--seconds 60]

The server is kinesalite, which npm fetches into FOLDER. It is faster than the server of headrace_stack and has neither parents of
shards nor limits. boto3 reads in two processes, headrace on two cores. Both read all pages from the oldest record, in turn, so that
other load on the machine affects both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from benchmarks import process_tree

from headrace import Pipeline
from headrace.progress.model import BatchProgress
from headrace_sources.kinesis.kinesis_source import KinesisSource
from headrace_stack.download import npm
from headrace_stack.servers.aws_server import AwsServer
from headrace_stack.servers.json_http import request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "kinesalite@3.3.3"
#: Bytes of a value, and records per put call.
RECORD, CALL = 1000, 500


class Kinesalite(AwsServer):
    """Server with streams in memory."""

    name = "kinesalite"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._installed = folder / "npm"

    def fetch(self) -> None:
        install = [npm.find_program("npm"), "install", "--silent", "--prefix", self._installed, PACKAGE]
        subprocess.run(list(map(str, install)), check=True)
        # Without the patch it reports every page as the last one.
        script = self._installed / "node_modules/kinesalite/actions/getRecords.js"
        text = script.read_text(encoding="utf-8")
        full = "millisBehind = items.length === (data.Limit || 10000) ? 1 : 0"
        text = text.replace("millisBehind = 0", full)
        assert full in text
        script.write_text(text, encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        script = self._installed / "node_modules/kinesalite/cli.js"
        settings = ["--port", str(self.port), "--createStreamMs", "5", "--shardLimit", "100"]
        return [npm.find_program("node"), "--max-old-space-size=4096", script, *settings]

    def ready(self) -> bool:
        try:
            return request("GET", self.endpoint_url)[0] > 0
        except OSError:
            return False

    def fill(self, stream: str, megabytes: int) -> int:
        """Put rows as JSON; return their number."""
        count = megabytes * 1_000_000 // RECORD // CALL * CALL
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(partial(self.put, self.open_client("kinesis"), stream), range(0, count, CALL)))
        return count

    def create(self, stream: str, shards: int) -> None:
        """Create an empty stream."""
        client = self.open_client("kinesis")
        client.create_stream(StreamName=stream, ShardCount=shards)
        client.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})

    @staticmethod
    def put(client: Any, stream: str, first: int) -> None:
        """Put the rows of one call."""
        records = []
        for number in range(first, first + CALL):
            text = hashlib.shake_256(str(number).encode()).hexdigest((RECORD - 40) // 2)
            row = json.dumps({"id": number, "text": text})
            records.append({"Data": row.encode(), "PartitionKey": str(number)})
        assert not client.put_records(StreamName=stream, Records=records)["FailedRecordCount"]


def read_shards(endpoint: str, region: str, stream: str, shards: Sequence[str]) -> int:
    """Read shards with plain boto3 from the oldest record to the end; return the number of records."""
    client = boto3.client("kinesis", endpoint_url=endpoint, region_name=region)
    count = 0
    for shard in shards:
        where = {"StreamName": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = client.get_shard_iterator(**where)["ShardIterator"]
        behind = 1
        while behind:
            page = client.get_records(ShardIterator=iterator, Limit=10_000)
            count += len(page["Records"])
            iterator, behind = page["NextShardIterator"], page["MillisBehindLatest"]
    return count


def read_by_boto3(server: Kinesalite, pool: ProcessPoolExecutor, stream: str) -> int:
    """Read a stream in two processes; return the number of records."""
    shards = [shard["ShardId"] for shard in server.open_client("kinesis").list_shards(StreamName=stream)["Shards"]]
    halves = [shards[first::2] for first in range(2)]
    read = [pool.submit(read_shards, server.endpoint_url, server.region, stream, half) for half in halves]
    return sum(one.result() for one in read)


def read_by_headrace(server: Kinesalite, spark: SparkSession, stream: str, count: int) -> None:
    """Read a number of records in ranges of the source without writing them."""
    options = {"stream": stream, "endpoint.url": server.endpoint_url, "starting.position": "TRIM_HORIZON"}
    source, read = KinesisSource(options), 0
    source.open(spark)
    start = source.initial()
    while read < count:
        end = source.latest(start, None)
        read += source.read(spark, start, end).count()
        start = end


def make_pipeline(server: Kinesalite, stream: str, work: Path) -> Pipeline:
    """Make a pipeline from a stream into an Iceberg table."""
    options = {"stream": stream, "endpoint.url": server.endpoint_url, "starting.position": "TRIM_HORIZON"}
    return Pipeline.from_dict(
        {
            "name": stream,
            "source": {"kinesis": options, "value": {"json": {}}, "key": "none"},
            "tables": [{"source": stream, "key": ["id"], "target": f"shop.{stream.replace('-', '_')}"}],
            "sink": {"iceberg": {"warehouse": str(work / "lake")}},
            "checkpoint": str(work / f"checkpoint-{stream}"),
            "spark": {"spark.master": "local[2]"},
        }
    )


def measure_table(server: Kinesalite, spark: SparkSession, megabytes: int, work: Path) -> dict[str, Any]:
    """Measure records per second of available-now runs: one that creates the table and one that updates its rows."""
    rates = []
    server.create("table", 4)
    pipeline = make_pipeline(server, "table", work)
    for _ in range(2):
        count = server.fill("table", megabytes)
        began = time.monotonic()
        summary = pipeline.run(spark)
        rates.append(round(count / (time.monotonic() - began)))
        assert summary.tables[0].applied == count
    return {"records/s into Iceberg": rates}


def measure_lag(server: Kinesalite, spark: SparkSession, seconds: int, work: Path) -> dict[str, Any]:
    """Measure the age of the newest readable row at 2 MB/s per shard."""
    server.create("lag", 1)
    client = server.open_client("kinesis")
    pipeline = make_pipeline(server, "lag", work)
    rows, lags, put = 0, [], [time.monotonic()]

    def note(batch: BatchProgress) -> None:
        nonlocal rows
        rows += batch.tables[0].rows_in or 0
        lags.append(time.monotonic() - put[rows // CALL])

    query = pipeline.start(spark, on_progress=note)
    for number in range(seconds * 2_000_000 // RECORD // CALL):
        time.sleep(max(0.0, put[0] + number * CALL * RECORD / 2_000_000 - time.monotonic()))
        server.put(client, "lag", number * CALL)
        put.append(time.monotonic())
    while query.is_active and rows < (len(put) - 1) * CALL:
        time.sleep(0.1)
    query.stop()
    # The first third warms up.
    counted = lags[len(lags) // 3 :]
    took = time.monotonic() - put[0]
    found = {"median": statistics.median(counted), "most": max(counted), "whole run": took}
    return {"lag at 2 MB/s": {name: round(value, 1) for name, value in found.items()}, "batches": len(lags)}


def compare(
    server: Kinesalite, spark: SparkSession, pool: ProcessPoolExecutor, shards: int, megabytes: int, rounds: int
) -> dict[str, Any]:
    """Measure both in turn. The first three rounds warm up the JVM."""
    stream = f"shards-{shards}"
    server.create(stream, shards)
    count = server.fill(stream, megabytes)
    boto3_, headrace = [], []
    for _ in range(rounds + 3):
        cost = take_time()
        assert read_by_boto3(server, pool, stream) == count
        boto3_.append(cost())
        cost = take_time()
        read_by_headrace(server, spark, stream, count)
        headrace.append(cost())
        spark.catalog.clearCache()
    found: dict[str, Any] = {"shards": shards}
    for number, name in enumerate(("wall", "CPU")):
        ours, theirs = ([costs[number] for costs in side[3:]] for side in (headrace, boto3_))
        ratios = sorted(there / here for here, there in zip(ours, theirs, strict=True))
        found[f"boto3 {name} s"], found[f"headrace {name} s"] = (
            round(statistics.median(side), 2) for side in (theirs, ours)
        )
        found[f"{name} ratio"] = [round(ratio, 2) for ratio in (statistics.median(ratios), ratios[0], ratios[-1])]
    return found


def take_time() -> Callable[[], tuple[float, float]]:
    """Start a timer of seconds and of CPU seconds of this process and its descendants, including the server."""
    began, used = time.monotonic(), process_tree.cpu_s(os.getpid())
    return lambda: (time.monotonic() - began, process_tree.cpu_s(os.getpid()) - used)


def main() -> None:
    """Print a line of JSON for each figure."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--shards", type=int, nargs="*", default=[1, 4, 16])
    cli.add_argument("--megabytes", type=int, default=96)
    cli.add_argument("--repeat", type=int, default=3)
    cli.add_argument("--seconds", type=int, default=60)
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    with ProcessPoolExecutor(2) as pool, Kinesalite(arguments.work) as server:
        os.environ.update(server.environment)
        spark = make_pipeline(server, "table", arguments.work).session()
        for shards in arguments.shards:
            found = compare(server, spark, pool, shards, arguments.megabytes, arguments.repeat)
            print(json.dumps({**found, "load": os.getloadavg()[0]}), flush=True)
        print(json.dumps(measure_table(server, spark, arguments.megabytes, arguments.work)), flush=True)
        print(json.dumps(measure_lag(server, spark, arguments.seconds, arguments.work)), flush=True)


if __name__ == "__main__":
    main()
