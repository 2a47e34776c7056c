"""Columns that change their type, and unreadable files.

The user chooses what happens to the affected records. Other tables continue.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze, Topic
from tests.support.pipelines import COLUMNS, TABLE_SINKS, rows, sink_block

from headrace import DataError, HeadraceError, Pipeline

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
            **({} if "sinks" in more else {"sink": sink_block(sink, tmp_path)}),
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


@pytest.mark.nightly
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


@pytest.mark.nightly
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


AT = {"type": "record", "name": "At", "fields": [{"name": "x", "type": "int"}]}


def connect_record(name: str, inner: str, number: int) -> dict[str, Any]:
    """Return a change of a row with a column and a nested field, as JSON with its schema."""
    at = {"type": "struct", "field": "at", "fields": [{"type": "int32", "field": inner}]}
    columns: list[dict[str, Any]] = [{"type": "int32", "field": "artist_id"}, {"type": "string", "field": name}, at]
    source = [{"type": "string", "field": "connector"}, {"type": "int64", "field": "lsn"}]
    fields = [{"type": "struct", "field": image, "optional": True, "fields": columns} for image in ("before", "after")]
    fields += [{"type": "struct", "field": "source", "fields": source}, {"type": "string", "field": "op"}]
    return {
        "schema": {"type": "struct", "fields": fields},
        "payload": {
            "before": None,
            "after": {"artist_id": number, name: f"{number}", "at": {inner: number}},
            "source": {"connector": "postgresql", "lsn": number},
            "op": "c",
        },
    }


@pytest.mark.nightly
@pytest.mark.parametrize("file_format", ["json", "avro"])
@pytest.mark.parametrize("sink", TABLE_SINKS)
def test_names_in_another_case_are_the_same_columns(
    tmp_path: Path, spark: SparkSession, sink: str, file_format: str
) -> None:
    bronze = Bronze(tmp_path / "bronze", "avro" if file_format == "avro" else "json")
    artists = topic(bronze)
    batches = [[("name", "x", 1), ("Name", "X", 2)], [("NAME", "x", 3)], [("name", "X", 4), ("naMe", "x", 5)]]
    source = {"files": {"path": str(tmp_path / "bronze"), "format": file_format}}
    pipeline = job(tmp_path, sink, source=source)
    for batch in batches:
        for name, inner, number in batch:
            if file_format == "avro":
                at = {**AT, "fields": [{"name": inner, "type": "int"}]}
                artists.columns = {"artist_id": "int", name: "string", "at": at}
                artists.insert({"artist_id": number, name: f"{number}", "at": {inner: number}})
            else:
                artists.pending.append(connect_record(name, inner, number))
            artists.flush()
        assert {(table.applied, table.dead_letters) for table in pipeline.run(spark).tables} == {(len(batch), 0)}
    found = rows(pipeline, spark, "moma.artists")
    assert [(row["artist_id"], row["name"], row["at"]) for row in found] == [
        (number, f"{number}", {"x": number}) for number in range(1, 6)
    ]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (["name", "at.x", "at.X"], "the names 'x' and 'X' differ only by case"),
        (["at.x", "name", "Name"], "the names 'name' and 'Name' differ only by case"),
        (["at.x", r"at\.x"], "Iceberg does not distinguish the column 'at.x' from the field 'x' of 'at'"),
    ],
)
def test_names_that_a_table_does_not_distinguish_are_an_error(
    tmp_path: Path, spark: SparkSession, columns: list[str], error: str
) -> None:
    record = connect_record("first", "x", 1)
    for image in record["schema"]["fields"][:2]:
        at: dict[str, Any] = {"type": "struct", "field": "at", "fields": []}
        for name in columns:
            outer, _, inner = name.replace("\\.", "/").partition(".")
            field = {"type": "int32", "field": (inner or outer).replace("/", ".")}
            (at["fields"] if inner else image["fields"]).append(field)
        image["fields"] = [field for field in image["fields"] if field["field"] not in ("first", "at")] + [at]
    record["payload"]["after"] = {"artist_id": 1}
    artists = topic(Bronze(tmp_path / "bronze", "json"))
    artists.pending.append(record)
    artists.flush()
    pipeline = job(tmp_path, source={"files": {"path": str(tmp_path / "bronze"), "format": "json"}})
    with pytest.raises(DataError) as raised:
        pipeline.run(spark)
    assert error in str(raised.value)
