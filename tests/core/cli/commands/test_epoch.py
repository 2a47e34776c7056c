"""Command ``headrace epoch``, in the Spark session of the test process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.conftest import Headrace
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TOPIC, pipeline, rows

from headrace import Pipeline
from headrace.progress.model import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

FILE = """\
name: artists
source:
  files: {{path: {folder}/{bronze}, format: avro}}
tables:
  - {{source: moma.public.artists, key: [artist_id], target: moma.artists}}
transforms: [unwrap]
sink:
  iceberg: {{warehouse: {folder}/lake/iceberg}}
checkpoint: {folder}/checkpoint-{bronze}
"""


def test_epoch_is_raised_after_a_restore(tmp_path: Path, command_spark: SparkSession, headrace: Headrace) -> None:
    file = tmp_path / "artists.yaml"
    file.write_text(FILE.format(folder=tmp_path, bronze="bronze"))
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "German"})
    bronze.flush()
    Pipeline.from_file(file).run(command_spark)
    raised = headrace("epoch", str(file), "--reason", "restored")
    assert (raised.exit_code, raised.output) == (
        0,
        "epoch 1: all changes from batch 1 on are newer than earlier ones\n",
    )
    (entry,) = Pipeline.from_file(file).log(spark=command_spark)
    assert (entry.command, entry.arguments, entry.result) == ("epoch", {"reason": "restored"}, "done")
    bronze.lsn = 1
    artists.snapshot({"artist_id": 1, "name": "Hans Arp", "nationality": "German"})
    bronze.flush()
    Pipeline.from_file(file).run(command_spark)
    assert rows(pipeline(tmp_path), command_spark)[0]["name"] == "Hans Arp"

    # A new checkpoint continues the epoch of the rows. An epoch before its first batch is one higher.
    file.write_text(FILE.format(folder=tmp_path, bronze="moved"))
    raised = headrace("epoch", str(file), "--reason", "new cluster")
    assert raised.output == "epoch 1: all changes from batch 0 on are newer than earlier ones\n"
    moved = Bronze(tmp_path / "moved")
    moved.lsn = 0
    moved.topic(TOPIC, key="artist_id", columns=COLUMNS).snapshot(
        {"artist_id": 1, "name": "Jean Arp", "nationality": "French"}
    )
    moved.flush()
    (batch,) = run(Pipeline.from_file(file), command_spark)
    assert (
        batch.tables[0].note
        == "has rows in an epoch that an earlier checkpoint raised: the changes are in a newer epoch (epoch 2)"
    )
    assert rows(pipeline(tmp_path), command_spark)[0]["name"] == "Jean Arp"


def run(job: Pipeline, spark: SparkSession) -> list[BatchProgress]:
    found: list[BatchProgress] = []
    job.run(spark, on_progress=found.append)
    return found
