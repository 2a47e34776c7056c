"""Columns that change their type, and unreadable files.

The user chooses what happens to the affected records. Other tables continue.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze, Topic
from tests.support.pipelines import COLUMNS, rows, sink_block

from headrace import HeadraceError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ARP = {"artist_id": 1, "name": "Arp", "nationality": "German"}
SEVEN = {"artist_id": 2, "name": 7, "nationality": None}
BAUER = {"artist_id": 3, "name": "Bauer", "nationality": None}
DEAD_LETTER_POLICY: dict[str, Any] = {"dead.letters": {"schema-incompatible": "dead-letter"}}


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    return Bronze(tmp_path / "bronze")


def topic(bronze: Bronze, name: str = "artists") -> Topic:
    return bronze.topic(f"moma.public.{name}", key="artist_id", columns=COLUMNS)


def job(tmp_path: Path, sink: str = "iceberg", checkpoint: str = "checkpoint", **more: Any) -> Pipeline:
    return Pipeline.from_dict(
        {
            "name": "moma",
            "source": {"files": {"path": str(tmp_path / "bronze"), "format": "avro"}},
            "tables": [{"source": "moma.public.*", "key": ["artist_id"], "target": "moma.{table}"}],
            "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "rewrite"}}],
            "sink": sink_block(sink, tmp_path),
            "checkpoint": str(tmp_path / checkpoint),
            **more,
        }
    )


def read_names(pipeline: Pipeline, spark: SparkSession, table: str = "artists") -> dict[int, Any]:
    return {row["artist_id"]: row["name"] for row in rows(pipeline, spark, f"moma.{table}")}


def read_dead_letters(pipeline: Pipeline, spark: SparkSession) -> list[tuple[str, Any]]:
    found = pipeline.read("dead_letters", spark=spark).collect()
    return sorted(
        (dead_letter["reason"], json.loads(bytes(dead_letter["value"]))["after"]["name"]) for dead_letter in found
    )


@pytest.mark.parametrize("sink", ["iceberg", "files"])
def test_new_checkpoint_rejects_type_that_differs_from_existing_table(
    bronze: Bronze, tmp_path: Path, spark: SparkSession, sink: str
) -> None:
    artists = topic(bronze)
    artists.snapshot(ARP)
    (first,) = bronze.flush()
    job(tmp_path, sink).run(spark)
    first.unlink()
    artists.columns["name"] = "int"
    artists.insert(SEVEN)
    artists.insert({**BAUER, "name": None})
    bronze.flush()
    with pytest.raises(HeadraceError, match="name"):
        job(tmp_path, sink, "again").run(spark)
    pipeline = job(tmp_path, sink, "aside", **DEAD_LETTER_POLICY)
    pipeline.run(spark)
    assert read_names(pipeline, spark) == {1: "Arp", 3: None}
    assert read_dead_letters(pipeline, spark) == [("schema-incompatible", 7)]


def test_conflicting_types_in_one_batch_fail_or_become_dead_letters(
    bronze: Bronze, tmp_path: Path, spark: SparkSession
) -> None:
    artists = topic(bronze)
    artists.snapshot(ARP)
    bronze.flush()
    artists.columns["name"] = "int"
    artists.insert(SEVEN)
    bronze.flush()
    artists.columns["name"] = "string"
    artists.insert(BAUER)
    bronze.flush()
    with pytest.raises(HeadraceError, match=r"the column '.*name' is string in some records and int in others"):
        job(tmp_path).run(spark)
    pipeline = job(tmp_path, checkpoint="aside", **DEAD_LETTER_POLICY)
    pipeline.run(spark)
    assert read_names(pipeline, spark) == {1: "Arp", 3: "Bauer"}
    assert read_dead_letters(pipeline, spark) == [("schema-incompatible", 7)]


def test_unreadable_file_stops_only_its_table(bronze: Bronze, tmp_path: Path, spark: SparkSession) -> None:
    artists, works = topic(bronze), topic(bronze, "works")
    for each in (artists, works):
        each.snapshot(ARP)
    bronze.flush()
    job(tmp_path).run(spark)
    for each in (artists, works):
        each.insert(BAUER)
    _, damaged = bronze.flush()
    content = damaged.read_bytes()
    damaged.write_bytes(b"nothing that Avro knows")
    with pytest.raises(HeadraceError, match="works"):
        job(tmp_path).run(spark)
    assert read_names(job(tmp_path), spark) == {1: "Arp", 3: "Bauer"}
    assert read_names(job(tmp_path), spark, "works") == {1: "Arp"}
    damaged.write_bytes(content)
    job(tmp_path).run(spark)
    assert read_names(job(tmp_path), spark, "works") == {1: "Arp", 3: "Bauer"}
