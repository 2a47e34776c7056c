"""A crash between a sink's write and the checkpoint: the batch repeats with the same id and the same records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import Bronze

from headrace.progress.model import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


# One sink that skips a written batch, and one that writes it again. The kits cover the other sinks.
@pytest.mark.parametrize("kind", ["iceberg", "files"])
def test_batch_written_before_a_crash_is_not_appended_twice(tmp_path: Path, spark: SparkSession, kind: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "French"})
    bronze.flush()
    options: dict[str, Any] = {
        "sinks": [pipelines.sink_block(kind, tmp_path, mode="append")],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
    }
    pipelines.pipeline(tmp_path, **options).run(spark)
    for commit in (tmp_path / "checkpoint" / "stream" / "commits").iterdir():
        commit.unlink()
    progress: list[BatchProgress] = []
    again = pipelines.pipeline(tmp_path, **options)
    again.run(spark, on_progress=progress.append)
    assert [batch.batch for batch in progress] == [0]
    assert [table.skipped for table in progress[0].tables] == [kind != "files"]
    assert [row["name"] for row in pipelines.rows(again, spark)] == ["Arp"]
