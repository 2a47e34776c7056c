"""Pipeline with tables, objects, dead letters and checkpoint on S3 that is killed: every row exists once.

The broker and the S3 server are real, and the latter verifies signatures. moto stands in for Glue, and a local server for the
container credentials. A proxy in front of S3 delays the requests that the kill must hit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.glue import Glue, set_aws_keys
from tests.support.role_server import RoleServer
from tests.support.s3_proxy import Fault, S3Proxy
from tests.support.s3a import bucket_options, open_bucket
from tests.support.waiting import until

from headrace import Pipeline
from headrace.sdk.sink import Table
from headrace_stack import S3, Kafka
from headrace_stack.servers.kafka import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark, pytest.mark.slow]

#: Number of records, batch size, and offset of an undecodable record.
RECORDS, BATCH, BROKEN = 10, 5, 6
#: Rows per object of the sink ``s3``, and first offsets. Rows of the first batch wait for those of the second.
SIZE, OBJECTS = 3, (0, 3, 7)
MOVED, HELD = OBJECTS[1:]
NO_ANSWER = Fault(None, is_silent=True)


@pytest.fixture(scope="module")
def glue() -> Iterator[Glue]:
    with Glue() as server:
        yield server


def object_key(start: int) -> str:
    return f"objects/topics/{pipelines.TOPIC}/partition=0/{pipelines.TOPIC}+0+{start:010d}.json"


def read_objects(s3: S3) -> dict[str, list[int]]:
    """Return the IDs of the rows in each object of the sink ``s3``."""
    found = {key: s3.read("lake", key) for key in s3.keys("lake", "objects/topics/") if not key.endswith("/")}
    return {key: [json.loads(line)["artist_id"] for line in content.splitlines()] for key, content in found.items()}


def list_sinks(s3: S3, glue: Glue) -> dict[str, dict[str, Any]]:
    """Return a sink per folder of the bucket. At the kill, the first two have written the batch, and the last two have not."""
    catalog = {
        "type": "glue",
        "warehouse": "s3://lake/glue",
        "glue.endpoint": glue.endpoint_url,
        "s3.endpoint": s3.endpoint_url,
        "s3.path-style-access": "true",
        "client.region": s3.region,
    }
    return {
        "iceberg": {"iceberg": {"warehouse": "s3a://lake/iceberg", "mode": "append"}},
        "mor": {"hudi": {"path": "s3a://lake/mor", "table.type": "MERGE_ON_READ", "mode": "append"}},
        "objects": {"s3": {"path": "s3a://lake/objects", "format": "json", "flush.size": SIZE}},
        "glue": {"iceberg": {"catalog": "lake_of_artists", "catalog.properties": catalog, "mode": "append"}},
        "files": {"files": {"path": "s3a://lake/files", "format": "parquet"}},
    }


def make_pipeline(kafka: Kafka, sinks: dict[str, dict[str, Any]], hadoop_options: dict[str, str]) -> dict[str, Any]:
    """Return a pipeline with per-bucket options and without keys, because the role provides them."""
    options = {f"spark.hadoop.{key}": value for key, value in bucket_options("lake", hadoop_options).items()}
    return {
        "name": "artists",
        "source": {
            "kafka": {
                "bootstrap.servers": kafka.bootstrap_servers,
                "subscribe": pipelines.TOPIC,
                "maxOffsetsPerTrigger": BATCH,
            },
            "value": "json",
        },
        "tables": [{"source": pipelines.TOPIC, "key": ["artist_id"], "target": pipelines.TABLE}],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
        "sinks": list(sinks.values()),
        "checkpoint": "s3a://lake/checkpoint",
        "spark": {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", **options},
    }


def produce(kafka: Kafka) -> list[int]:
    """Fill the topic; return the IDs of its rows."""
    kafka.create_topic(pipelines.TOPIC)
    rows = [{"artist_id": n, "name": f"n{n}"} for n in range(RECORDS)]
    source = {"connector": "postgresql", "table": "artists", "ts_ms": 1}
    events = [
        {"before": None, "after": row, "op": "c", "ts_ms": 1, "source": {**source, "lsn": row["artist_id"]}}
        for row in rows
    ]
    values = [json.dumps(event).encode() for event in events]
    values[BROKEN] = b'{"broken'
    kafka.produce(pipelines.TOPIC, *map(Record, values))
    return [n for n in range(RECORDS) if n != BROKEN]


@contextmanager
def run_program(file: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``headrace run`` in a new process group, and kill the group at the end of the block."""
    command = [sys.executable, "-m", "headrace", "run", "--available-now", str(file)]
    variables = {**os.environ, **environment}
    with (
        file.with_suffix(".log").open("wb") as log,
        subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_kill_during_a_run_loses_and_repeats_no_row(
    kafka: Kafka, s3: S3, glue: Glue, tmp_path: Path, spark: SparkSession
) -> None:
    s3.create_bucket("lake")
    ids = produce(kafka)
    sinks = list_sinks(s3, glue)
    file = tmp_path / "pipeline.yaml"
    with S3Proxy(s3) as proxy, RoleServer(s3) as roles:
        config = make_pipeline(kafka, sinks, proxy.hadoop_options)
        file.write_text(json.dumps(config), encoding="utf-8")
        proxy.fail(NO_ANSWER, times=1, methods="PUT", path=f"{HELD:010d}.json")
        with run_program(file, roles.environment) as process:
            # S3A renames complete objects. The first rename is complete, and S3 does not respond to the second.
            until(
                lambda: (proxy.faults_sent and object_key(MOVED) in s3.keys("lake")) or process.poll() is not None,
                "the second batch's objects",
            )
            assert process.poll() is None, file.with_suffix(".log").read_text()
    # Both AWS SDKs, S3A's and Iceberg's, had only the container's role.
    assert roles.containers > 1
    expected_objects = {object_key(start): ids[i * SIZE : (i + 1) * SIZE] for i, start in enumerate(OBJECTS)}
    assert read_objects(s3) == {key: rows for key, rows in expected_objects.items() if key != object_key(HELD)}

    address = open_bucket(spark, s3, "lake")
    pipeline = Pipeline.from_dict({**config, "spark": {}})
    with set_aws_keys(spark, s3.access_key, s3.secret_key):
        for key, value in pipeline.sinks[3].session_conf().items():
            spark.conf.set(key, value)
        assert pipeline.run(spark).batches == 1
        for name, sink in zip(sinks, pipeline.sinks, strict=True):
            rows = sink.read_back(spark, Table(pipelines.TABLE), None).collect()
            assert sorted(row.artist_id for row in rows) == ids, name
    assert read_objects(s3) == expected_objects
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    assert [bytes(row.value) for row in dead_letters.collect()] == [b'{"broken']
    commits = f"{address}/checkpoint/stream/commits/".removeprefix("s3a://lake/")
    assert [key for key in s3.keys("lake", commits) if not key.endswith("/")] == [
        f"{commits}{n}" for n in range(RECORDS // BATCH)
    ]
    assert {key.split("/")[0] for key in s3.keys("lake")} == {*sinks, "checkpoint"}
