"""Command ``headrace epoch``, in the Spark session of the test process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.conftest import Headrace
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TOPIC, pipeline, rows

from headrace import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

FILE = """\
name: artists
source:
  files: {{path: {folder}/bronze, format: avro}}
tables:
  - {{source: moma.public.artists, key: [artist_id], target: moma.artists}}
transforms: [unwrap]
sink:
  iceberg: {{warehouse: {folder}/lake/iceberg}}
checkpoint: {folder}/checkpoint
"""


def test_epoch_is_raised_after_a_restore(tmp_path: Path, command_spark: SparkSession, headrace: Headrace) -> None:
    file = tmp_path / "artists.yaml"
    file.write_text(FILE.format(folder=tmp_path))
    nothing = headrace("epoch", str(file))
    assert nothing.exit_code == 2
    assert "the pipeline has not applied a batch yet" in nothing.output
    assert "no epoch is needed before its first batch" in nothing.output
    assert not (tmp_path / "checkpoint").exists()

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
    bronze.lsn = 1
    artists.snapshot({"artist_id": 1, "name": "Hans Arp", "nationality": "German"})
    bronze.flush()
    Pipeline.from_file(file).run(command_spark)
    assert rows(pipeline(tmp_path), command_spark)[0]["name"] == "Hans Arp"
