"""Append mode with equal positions: every record becomes a row, regardless of its partition and topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.tiers import nightly_after

from headrace import Pipeline
from headrace_sinks.iceberg import table_handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPICS = ("shop.north", "shop.south")


def write_records(folder: Path, offset: int, *topics: str) -> None:
    """Write four records to each of three partitions, with equal offsets and equal positions in the database's log."""
    for topic in topics:
        for partition in range(3):
            rows = [{"id": f"{topic} {partition} {offset + n}", "__lsn": offset + n} for n in range(4)]
            write_lines(folder / f"bronze/{topic}/partition={partition}/{topic}+{partition}+{offset}.json", rows)


def job(folder: Path, kind: str) -> Pipeline:
    return pipelines.pipeline(
        folder,
        source={"files": {"path": str(folder / "bronze"), "format": "json"}},
        tables=[{"source": "shop.*", "target": "shop.orders"}],
        transforms=[],
        sinks=[pipelines.sink_block(kind, folder, mode="append")],
    )


def ids(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    return sorted(row["id"] for row in pipeline.read("shop.orders", spark=spark).collect())


@pytest.mark.parametrize("kind", nightly_after(1, pipelines.TABLE_SINKS))
def test_append_mode_keeps_rows_of_all_partitions_and_topics(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(table_handle, "MARK_SEARCH_DEPTH", 0)  # as if too many other commits followed the mark
    pipeline = job(tmp_path, kind)
    write_records(tmp_path, 0, TOPICS[0])
    pipeline.run(spark)
    write_records(tmp_path, 0, TOPICS[1])
    write_records(tmp_path, 4, *TOPICS)
    pipeline.run(spark)
    every = [f"{topic} {partition} {offset}" for topic in TOPICS for partition in range(3) for offset in range(8)]
    assert ids(pipeline, spark) == sorted(every)
    for done in (tmp_path / "checkpoint/stream/commits").glob("*1*"):  # as after a crash, so that the batch repeats
        done.unlink()
    pipeline.run(spark)
    assert ids(pipeline, spark) == sorted(every)
