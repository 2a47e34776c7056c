"""A pipeline whose source, tables, dead letters and checkpoint are on S3, killed in the middle: every row is there once."""

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
from tests.support.bronze import Bronze
from tests.support.s3a import bucket_options, open_bucket
from tests.support.waiting import until

from headrace import Pipeline
from headrace.sdk.sink import Table
from headrace.testing.stack import S3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark, pytest.mark.slow]

ROWS, FILES = 12, 4
SINKS: dict[str, dict[str, Any]] = {
    "iceberg": {"iceberg": {"warehouse": "s3a://lake/iceberg", "mode": "append"}},
    "cow": {"hudi": {"path": "s3a://lake/cow", "mode": "append"}},
    "mor": {"hudi": {"path": "s3a://lake/mor", "table.type": "MERGE_ON_READ"}},
    "files": {"files": {"path": "s3a://lake/files", "format": "parquet"}},
}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


def fill(s3: S3, folder: Path) -> None:
    """The bucket ``lake`` with source files of a few rows each."""
    s3.create_bucket("lake")
    bronze = Bronze(folder / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    for number in range(FILES):
        for row in range(ROWS // FILES):
            key = number * (ROWS // FILES) + row
            artists.snapshot({"artist_id": key, "name": f"n{key}", "nationality": None})
        (file,) = bronze.flush()
        s3.put("lake", str(file.relative_to(folder)), file.read_bytes())


def list_files(s3: S3, prefix: str) -> list[str]:
    """Without the markers of folders."""
    return [key for key in s3.keys("lake", prefix) if not key.endswith("/")]


@contextmanager
def run_program(file: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """``headrace run`` in a group of its own, which is killed with the block."""
    command = [sys.executable, "-m", "headrace", "run", str(file)]
    log = file.with_suffix(".log").open("wb")
    with (
        log,
        subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_kill_in_mid_run_loses_nothing_and_writes_nothing_twice(s3: S3, tmp_path: Path, spark: SparkSession) -> None:
    fill(s3, tmp_path)
    config: dict[str, Any] = {
        "name": "artists",
        "source": {"files": {"path": "s3a://lake/bronze", "format": "avro", "maxFilesPerTrigger": 1}},
        "tables": [{"source": pipelines.TOPIC, "key": ["artist_id"], "target": pipelines.TABLE}],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
        "sinks": list(SINKS.values()),
        "checkpoint": "s3a://lake/checkpoint",
        # By bucket, and without a key: those are in the environment.
        "spark": {f"spark.hadoop.{key}": value for key, value in bucket_options("lake", s3.hadoop_options).items()},
    }
    config["spark"] |= {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    assert s3.secret_key not in file.read_text(encoding="utf-8")
    commits, offsets = "checkpoint/stream/commits/", "checkpoint/stream/offsets/"
    with run_program(file, dict(s3.environment)) as process:
        until(
            lambda: f"{offsets}2" in s3.keys("lake", offsets) or process.poll() is not None,
            f"the third batch:\n{file.with_suffix('.log').read_text()}",
        )
        assert process.poll() is None, file.with_suffix(".log").read_text()
    done = list_files(s3, commits)
    assert len(done) < FILES
    open_bucket(spark, s3, "lake")
    pipeline = Pipeline.from_dict({**config, "spark": {}})
    assert pipeline.run(spark).batches == FILES - len(done)
    assert list_files(s3, commits) == [f"{commits}{number}" for number in range(FILES)]
    for name, sink in zip(SINKS, pipeline.sinks, strict=True):
        keys = [row.artist_id for row in sink.read_back(spark, Table(pipelines.TABLE), None).collect()]
        assert sorted(keys) == list(range(ROWS)), name
    assert {key.split("/")[0] for key in s3.keys("lake")} == {*SINKS, "bronze", "checkpoint"}
