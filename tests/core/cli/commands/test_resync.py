"""Command ``headrace resync``, which removes rows that the database deleted while no connector was running.

The command runs in the Spark session of the test process.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.conftest import Headrace
from tests.support.bronze import Bronze, Topic
from tests.support.pipelines import COLUMNS, TABLE, TABLE_SINKS, TOPIC, rows
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline
from headrace.progress.model import BatchProgress

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
  {sink}: {{{option}: {folder}/lake/{sink}}}
checkpoint: {folder}/checkpoint
"""


def artist(number: int, name: str) -> dict[str, Any]:
    return {"artist_id": number, "name": name, "nationality": None}


def write_snapshot(topic: Topic, *artists: dict[str, Any], last: str = "last_in_data_collection") -> None:
    """Write a snapshot of a table through a new slot."""
    topic.bronze.committed = None
    topic.bronze.lsn += 1000
    sequence = json.dumps([None, str(topic.bronze.lsn)])
    markers = ["first_in_data_collection", *["true"] * (len(artists) - 2), last]
    for row, marker in zip(artists, markers, strict=True):
        topic.event("r", None, row, snapshot=marker, sequence=sequence)


def pipeline_file(folder: Path, sink: str = "iceberg", **replacements: str) -> Path:
    text = FILE.format(folder=folder, sink=sink, option={"iceberg": "warehouse", "hudi": "path"}[sink])
    for old, new in replacements.items():
        text = text.replace(old, new)
    file = folder / "artists.yaml"
    file.write_text(text)
    return file


def run(file: Path, topic: Topic, spark: SparkSession) -> Pipeline:
    topic.flush()
    pipeline = Pipeline.from_file(file)
    pipeline.run(spark)
    return pipeline


each_sink = pytest.mark.parametrize("sink", nightly_after(1, TABLE_SINKS))


@pytest.mark.nightly
@each_sink
def test_rows_missing_from_a_new_snapshot_are_removed_permanently(
    tmp_path: Path, command_spark: SparkSession, headrace: Headrace, sink: str
) -> None:
    file = pipeline_file(tmp_path, sink)
    nothing = headrace("resync", str(file), TABLE)
    assert (nothing.exit_code, "the pipeline has not applied a batch yet" in nothing.output) == (2, True)

    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.insert(artist(1, "Arp"))
    artists.insert(artist(2, "Kahlo"))
    artists.update(artist(2, "Kahlo"), artist(2, "Frida Kahlo"))
    artists.insert(artist(3, "Klee"))
    late = [dict(event) for event in artists.pending if event["after"]["artist_id"] == 2]
    run(file, artists, command_spark)
    unseen = headrace("resync", str(file), TABLE)
    assert unseen.output == (
        f"error: no row of a snapshot was applied\nwhere: table {TABLE}\n"
        "  fix: take a new snapshot of it with the connector, and run the pipeline until the snapshot is applied\n"
    )

    # Without a slot, row 2 was deleted and row 1 was renamed. Then row 4 was inserted and row 3 updated.
    write_snapshot(artists, artist(1, "Hans Arp"), artist(3, "Klee"))
    artists.event(
        "c", None, artist(4, "Ono"), sequence=f'[null,"{artists.bronze.lsn + 8}"]', lsn=artists.bronze.lsn + 8
    )
    artists.bronze.committed = artists.bronze.lsn + 16
    artists.bronze.lsn += 24
    artists.update(artist(3, "Klee"), artist(3, "Paul Klee"))
    pipeline = run(file, artists, command_spark)
    kept = [artist(1, "Hans Arp"), artist(3, "Paul Klee"), artist(4, "Ono")]
    assert rows(pipeline, command_spark) == sorted([*kept, artist(2, "Frida Kahlo")], key=lambda r: r["artist_id"])

    for count in ("1 row", "0 rows"):  # the second run finds no rows to remove
        done = headrace("resync", str(file), TABLE)
        seen = json.loads((tmp_path / "checkpoint/snapshots" / TABLE).read_text())["seen"]
        assert (done.exit_code, done.output.splitlines()) == (
            0,
            [f"{TABLE}, {sink}: {count} removed, older than the snapshot of batch 1, {seen}"],
        )
        assert rows(pipeline, command_spark) == kept

    artists.pending = late
    run(file, artists, command_spark)
    assert rows(pipeline, command_spark) == kept


@each_sink
def test_no_row_is_removed_while_snapshot_rows_are_missing_from_the_table(
    tmp_path: Path, spark: SparkSession, sink: str
) -> None:
    file = pipeline_file(tmp_path, sink)
    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.insert(artist(1, "Arp"))
    artists.insert(artist(2, "Kahlo"))
    write_snapshot(artists, artist(1, "Arp"), artist(3, "Klee"), last="true")
    pipeline = run(file, artists, spark)
    with pytest.raises(ConfigError, match="which started in batch 0, has not ended"):
        pipeline.resync(TABLE, spark=spark)
    assert len(rows(pipeline, spark)) == 3
    artists.event("r", None, artist(4, "Ono"), snapshot="last", sequence=f'[null,"{artists.bronze.lsn}"]')
    artists.event(None, None, artist(5, "Ray"))
    run(file, artists, spark)
    with pytest.raises(ConfigError, match="1 of its records since the snapshot started are dead letters"):
        pipeline.resync(TABLE, spark=spark)
    assert len(rows(pipeline, spark)) == 4
    assert [done.removed for done in pipeline.resync(TABLE, now=True, spark=spark)] == [1]
    assert [row["artist_id"] for row in rows(pipeline, spark)] == [1, 3, 4]


@pytest.mark.nightly
def test_snapshot_of_one_topic_does_not_affect_another(tmp_path: Path, spark: SparkSession) -> None:
    file, bronze = pipeline_file(tmp_path), Bronze(tmp_path / "bronze")
    first, second = (bronze.topic(f"moma.public.{n}", key="artist_id", columns=COLUMNS) for n in ("old", "new"))
    second.insert(artist(1, "Arp"))
    second.flush()
    write_snapshot(first, artist(2, "Kahlo"), artist(3, "Klee"))
    pipeline = run(file, first, spark)
    with pytest.raises(ConfigError, match=r"several sources are written to it.*: moma\.public\.(new|old)/"):
        pipeline.resync(TABLE, spark=spark)


@pytest.mark.nightly
def test_no_row_is_removed_from_a_table_that_keeps_deleted_rows(tmp_path: Path, spark: SparkSession) -> None:
    file = pipeline_file(tmp_path, **{"[unwrap]": "[unwrap: {delete.tombstone.handling.mode: rewrite}]"})
    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    write_snapshot(artists, artist(1, "Arp"), artist(2, "Kahlo"))
    with pytest.raises(ConfigError, match="keeps rows that the database deletes"):
        run(file, artists, spark).resync(TABLE, spark=spark)


@pytest.mark.nightly
def test_snapshot_is_recorded_when_its_batch_is_repeated_after_a_crash(tmp_path: Path, spark: SparkSession) -> None:
    file, checkpoint = pipeline_file(tmp_path), tmp_path / "checkpoint"
    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.insert(artist(1, "Arp"))
    write_snapshot(artists, artist(2, "Kahlo"), artist(3, "Klee"))
    run(file, artists, spark)
    # The process wrote the batch to the table and crashed before it recorded the snapshot.
    (checkpoint / "snapshots" / TABLE).unlink()
    for commit in (checkpoint / "stream/commits").iterdir():
        commit.unlink()
    pipeline, batches = Pipeline.from_file(file), list[BatchProgress]()
    pipeline.run(spark, on_progress=batches.append)
    assert [table.skipped for batch in batches for table in batch.tables] == [True]
    assert [done.removed for done in pipeline.resync(TABLE, spark=spark)] == [1]
    assert [row["artist_id"] for row in rows(pipeline, spark)] == [2, 3]


@pytest.mark.nightly
def test_snapshot_of_restored_database_applies_to_its_epoch(tmp_path: Path, spark: SparkSession) -> None:
    file = pipeline_file(tmp_path)
    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    write_snapshot(artists, artist(1, "Arp"), artist(2, "Kahlo"))
    run(file, artists, spark).raise_epoch("restored", spark)
    artists.bronze.lsn = -900  # the log of the restored database starts again
    write_snapshot(artists, artist(1, "Hans Arp"), artist(3, "Klee"))
    pipeline = run(file, artists, spark)
    assert [done.removed for done in pipeline.resync(TABLE, spark=spark)] == [1]
    assert rows(pipeline, spark) == [artist(1, "Hans Arp"), artist(3, "Klee")]
