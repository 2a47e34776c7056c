"""Commands ``headrace tables`` and ``headrace maintain``, and the maintenance at the end of a run.

The commands run in the Spark session of the test process.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.conftest import Headrace
from tests.support import pipelines
from tests.support.bronze import Bronze, Topic
from tests.support.pipelines import COLUMNS, TABLE, TOPIC

from headrace import Pipeline
from headrace.progress.maintained import Maintained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

FILE = """\
name: artists
source:
  files: {{path: {folder}/bronze, format: avro}}
tables:
  - {{source: moma.public.*, key: [artist_id], target: moma.artists}}
transforms: [unwrap]
sink:
  iceberg: {{warehouse: {folder}/lake}}
checkpoint: {folder}/checkpoint
"""


@pytest.fixture
def artists(tmp_path: Path) -> Topic:
    return Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)


@pytest.fixture
def file(tmp_path: Path, command_spark: SparkSession) -> Path:
    file = tmp_path / "artists.yaml"
    file.write_text(FILE.format(folder=tmp_path))
    return file


def artist(number: int, name: str) -> dict[str, Any]:
    return {"artist_id": number, "name": name, "nationality": None}


def write_batches(artists: Topic, pipeline: Pipeline, spark: SparkSession, count: int) -> list[Maintained]:
    """Write ``count`` batches, each with a new row and an update of the first row, and return the reported maintenance."""
    reported: list[Maintained] = []
    for number in range(1, count + 1):
        artists.insert(artist(number, f"name {number}"))
        artists.update(artist(1, f"name {number - 1}"), artist(1, f"name {number}"))
        artists.flush()
        pipeline.start_available_now(spark, on_maintenance=reported.append).await_termination()
    return reported


@pytest.mark.nightly
def test_due_steps_are_listed_and_run(headrace: Headrace, file: Path, artists: Topic, spark: SparkSession) -> None:
    assert "no table with a known size yet" in headrace("tables", str(file)).output
    assert headrace("maintain", str(file)).output == "nothing is due\n"
    pipeline = Pipeline.from_file(file)
    assert write_batches(artists, pipeline, spark, 3) == []

    names, table = headrace("tables", str(file)).output.splitlines()
    assert re.split(" {2,}", names) == [
        *("table", "sink", "rows", "bytes", "files", "small", "deletes", "versions", "since (UTC)", "compacted (UTC)"),
    ]
    assert re.fullmatch(rf"{TABLE} +iceberg +3 +[\d,]+ +3 +3 +2 +3 +\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d +–", table)
    due = headrace("maintain", str(file), "--dry-run").output
    assert re.fullmatch(rf"{TABLE} → iceberg: compact: 3 files of 0\.0 MB\n", due)
    done = headrace("maintain", str(file), TABLE).output
    assert re.fullmatch(rf"{TABLE} → iceberg: compact: 3 files into 1, took [\d.]+ s\n", done)
    after = json.loads(headrace("tables", str(file), "--format", "json").output)
    assert (after["table"], after["sink"], after["rows"], after["files"]) == (TABLE, "iceberg", 3, 1)
    assert (after["small_files"], after["delete_files"]) == (0, 0)
    assert after["maintained"] > after["oldest_version"]
    assert headrace("maintain", str(file)).output == "nothing is due\n"

    kept = [artist(1, "name 3"), artist(2, "name 2"), artist(3, "name 3")]
    assert pipelines.rows(pipeline, spark) == kept
    wrong = headrace("maintain", str(file), "moma.artist")
    assert (wrong.exit_code, "did you mean moma.artists" in wrong.output.replace("'", "")) == (2, True)


def test_run_maintains_tables_before_it_ends(tmp_path: Path, artists: Topic, spark: SparkSession) -> None:
    pipeline = pipelines.pipeline(tmp_path, maintenance={"files": 3})
    reported = write_batches(artists, pipeline, spark, 2)
    assert [(one.step, one.outcome, one.error) for one in reported] == [("compact", "2 files into 1", None)]
    assert pipelines.rows(pipeline, spark) == [artist(1, "name 2"), artist(2, "name 2")]
    off = pipelines.pipeline(tmp_path, maintenance={"files": 3, "enabled": False})
    assert write_batches(artists, off, spark, 2) == []


def test_failed_step_is_reported_and_command_exits_with_an_error(
    headrace: Headrace, file: Path, artists: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    write_batches(artists, Pipeline.from_file(file), spark, 2)
    for data in (tmp_path / "lake/moma/artists/data").glob("*.parquet"):
        data.unlink()
    failed = headrace("maintain", str(file))
    assert failed.exit_code == 1
    assert failed.output.startswith(f"{TABLE} → iceberg: compact: ")
    assert "artists/data" in failed.output
