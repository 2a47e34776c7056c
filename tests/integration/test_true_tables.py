"""Equality of tables and databases: order, deletes, duplicates, replays, new columns and masks, on every table format."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TABLE, TABLE_SINKS, TOPIC, pipeline, rows, sink_block
from tests.support.tiers import nightly_after

from headrace.sdk.sink import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.progress.model import TableProgress

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ARP = {"artist_id": 1, "name": "Arp", "nationality": "German"}
BAUER = {"artist_id": 2, "name": "Bauer", "nationality": "Austrian"}
COOL = {"artist_id": 3, "name": "Cool", "nationality": "American"}


#: Runs a test on each table format. Other tests use one format, because the conformance kit tests each sink.
every_sink = pytest.mark.parametrize("sink", nightly_after(1, TABLE_SINKS))


@pytest.fixture
def sink() -> str:
    return TABLE_SINKS[0]


@every_sink
def test_table_equals_database_after_snapshot_changes_and_new_column(
    tmp_path: Path, spark: SparkSession, sink: str
) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    for row in (ARP, BAUER, COOL):
        artists.snapshot(row)
    bronze.flush()
    job = pipeline(tmp_path, sink)
    job.run(spark)
    assert rows(job, spark) == [ARP, BAUER, COOL]

    artists.update(ARP, {**ARP, "nationality": "French"})
    artists.update({**ARP, "nationality": "French"}, {**ARP, "nationality": "Swiss"})
    artists.delete(BAUER)
    artists.columns["born"] = "int"
    artists.insert({"artist_id": 4, "name": "Dix", "nationality": "German", "born": 1891})
    bronze.flush()
    summary = job.run(spark)
    assert rows(job, spark) == [
        {**ARP, "nationality": "Swiss", "born": None},
        {**COOL, "born": None},
        {"artist_id": 4, "name": "Dix", "nationality": "German", "born": 1891},
    ]
    assert (summary.batches, summary.tables[0].rows_in, summary.tables[0].dead_letters) == (1, 4, 0)
    assert job.run(spark).batches == 0, "nothing new: no batch"


def test_late_events_and_replays_do_not_change_table(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    artists.snapshot(BAUER)
    (first,) = bronze.flush()
    artists.update(ARP, {**ARP, "name": "Jean Arp"})
    (second,) = bronze.flush()
    artists.update({**ARP, "name": "Jean Arp"}, {**ARP, "name": "Hans Arp"})
    artists.update(BAUER, {**BAUER, "name": "Rudolf Bauer"})
    bronze.flush()
    for late in (first, second):
        late.rename(tmp_path / late.name)
    job = pipeline(tmp_path, sink)
    job.run(spark)
    newest = [{**ARP, "name": "Hans Arp"}, {**BAUER, "name": "Rudolf Bauer"}]
    assert rows(job, spark) == newest

    for late in (second, first):
        (tmp_path / late.name).rename(late)
        summary = job.run(spark)
        assert rows(job, spark) == newest
        assert (summary.tables[0].applied, summary.tables[0].late) == (0, summary.tables[0].rows_in)

    shutil.rmtree(tmp_path / "checkpoint")
    job.run(spark)
    assert rows(job, spark) == newest, "the whole history once more"


@pytest.mark.nightly
def test_soft_deletes_keep_and_mark_rows(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    artists.snapshot(BAUER)
    bronze.flush()
    unwrap = {"delete.tombstone.handling.mode": "rewrite", "add.fields": "op,source.ts_ms"}
    job = pipeline(tmp_path, sink, transforms=[{"unwrap": unwrap}])
    job.run(spark)
    artists.delete(ARP)
    bronze.flush()
    job.run(spark)
    found = rows(job, spark)
    assert [(r["artist_id"], r["name"], r["__deleted"], r["__op"]) for r in found] == [
        (1, "Arp", "true", "d"),
        (2, "Bauer", "false", "r"),
    ]
    assert all(r["__source_ts_ms"] for r in found)


@pytest.mark.nightly
def test_changes_superseded_in_their_batch_are_counted(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    artists.update(ARP, {**ARP, "name": "Hans Arp"})
    artists.snapshot(BAUER)
    artists.delete(BAUER)
    bronze.flush()
    found: list[TableProgress] = []
    pipeline(tmp_path, sink).run(spark, on_progress=lambda progress: found.extend(progress.tables))
    assert [(t.rows_in, t.applied, t.superseded, t.dead_letters) for t in found] == [(4, 2, 2, 0)]


@pytest.mark.nightly
def test_changelog_is_written_in_addition_to_table(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    artists.insert(BAUER)
    artists.update(ARP, {**ARP, "name": "Hans Arp"})
    bronze.flush()
    job = pipeline(
        tmp_path,
        sinks=[sink_block(sink, tmp_path / "log", mode="changelog"), sink_block("iceberg", tmp_path / "table")],
    )
    job.run(spark)
    artists.delete(BAUER)
    bronze.flush()
    job.run(spark)
    table, log = job.sinks[1], job.sinks[0]
    assert [row["name"] for row in table.read_back(spark, Table(TABLE)).collect()] == ["Hans Arp"]
    changes = log.read_back(spark, Table(TABLE)).orderBy("_headrace_position").collect()
    assert [(row["__op"], row["artist_id"], row["name"]) for row in changes] == [
        ("r", 1, "Arp"),
        ("c", 2, "Bauer"),
        ("u", 1, "Hans Arp"),
        ("d", 2, None),
    ]


@pytest.mark.nightly
@every_sink
def test_rename_and_mask_reach_every_table(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    artists.snapshot({**BAUER, "nationality": None})
    bronze.flush()
    transforms = [
        {"unwrap": {}},
        {"rename": {"columns": {"artist_id": "id", "nationality": "country"}}},
        {"mask": {"columns": {"name": {"sha256": {"salt": "pepper"}}, "id": {"sha256": {"salt": "pepper"}}}}},
    ]
    job = pipeline(tmp_path, sink, transforms=transforms)
    job.run(spark)
    artists.update(ARP, {**ARP, "nationality": "Swiss"})
    artists.delete({**BAUER, "nationality": None})
    bronze.flush()
    job.run(spark)
    assert rows(job, spark, key="id") == [{"id": _hash("1"), "name": _hash("Arp"), "country": "Swiss"}]


@pytest.mark.nightly
def test_time_travel_reads_earlier_version(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    bronze.flush()
    job = pipeline(tmp_path, sink)
    versions = []
    job.run(spark, on_progress=lambda progress: versions.append(progress.tables[0].version))
    artists.update(ARP, BAUER | {"artist_id": 1})
    bronze.flush()
    job.run(spark)
    assert rows(job, spark, as_of=versions[0]) == [ARP]
    assert rows(job, spark) == [{**BAUER, "artist_id": 1}]


@every_sink
def test_envelopes_without_unwrap_are_appended(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot(ARP)
    artists.update(ARP, {**ARP, "name": "Hans Arp"})
    bronze.flush()
    job = pipeline(tmp_path, sink, transforms=[])
    job.run(spark)
    found = job.read(TABLE, spark=spark).orderBy("source.lsn").collect()
    assert [(r["op"], r["after"]["name"], r["before"] and r["before"]["name"]) for r in found] == [
        ("r", "Arp", None),
        ("u", "Hans Arp", "Arp"),
    ]


@pytest.mark.nightly
def test_flat_files_of_s3_sink_are_upserted(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    """The files were written by ExtractNewRecordState and the S3 sink connector."""
    shutil.copytree(Path("tests/data/msk_demo/flat"), tmp_path / "bronze")
    tables = [
        {"source": "moma.public.artists", "key": "artist_id"},
        {"source": "moma.public.artworks", "key": "artwork_id"},
    ]
    job = pipeline(tmp_path, sink, tables=tables, transforms=[])
    summary = job.run(spark)
    assert {(t.table, t.rows_in) for t in summary.tables} == {
        ("moma.public.artists", 900),
        ("moma.public.artworks", 900),
    }
    artists = job.read("moma.public.artists", spark=spark)
    assert artists.count() == 900 == artists.select("artist_id").distinct().count()
    assert artists.where("artist_id = 1").select("name", "nationality", "__op").collect() == [
        ("Robert Arneson", "American", "r")
    ]


@every_sink
def test_topics_become_tables_named_by_their_rules(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    bronze.topic("moma.public.artists", key="artist_id", columns=COLUMNS).snapshot(ARP)
    bronze.topic("moma.public.works", key="work_id", columns={"work_id": "int", "title": "string"}).snapshot(
        {"work_id": 7, "title": "Torso"}
    )
    bronze.topic("shop.public.orders", key="id", columns={"id": "int"}).snapshot({"id": 1})
    bronze.flush()
    rules = [
        {"source": "moma.public.artists", "key": "artist_id", "target": "{db}_{schema}.{table}"},
        {"source": "/moma\\..*/", "key": "work_id"},
    ]
    job = pipeline(tmp_path, sink, tables=rules)
    summary = job.run(spark)
    assert summary.unrouted == ("shop.public.orders",)
    assert rows(job, spark, "moma_public.artists") == [ARP]
    assert rows(job, spark, "moma.public.works", "work_id") == [{"work_id": 7, "title": "Torso"}]


def _hash(text: str) -> str:
    return hashlib.sha256(f"pepper{text}".encode()).hexdigest()


@pytest.mark.nightly
def test_restored_database_is_newer_after_epoch_is_raised(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    bronze.lsn = 0xFFFF_0000
    for row in (ARP, BAUER):
        artists.snapshot(row)
    artists.update(ARP, {**ARP, "name": "Jean Arp"})
    artists.delete(BAUER)
    bronze.flush()
    job = pipeline(tmp_path, sink)
    job.run(spark)

    bronze.lsn, bronze.committed = 10, None
    for row in (ARP, BAUER, COOL):
        artists.snapshot(row)
    bronze.flush()
    raised = job.raise_epoch("restored from the backup of Monday", spark)
    assert (raised.number, raised.from_batch) == (1, 1)
    job.run(spark)
    assert rows(job, spark) == [ARP, BAUER, COOL]

    artists.delete(COOL)
    bronze.flush()
    job.run(spark)
    assert rows(job, spark) == [ARP, BAUER]
    log = json.loads((tmp_path / "checkpoint" / "epochs.json").read_text())
    assert [(epoch["number"], epoch["reason"]) for epoch in log] == [(1, "restored from the backup of Monday")]

    # A new checkpoint continues the epoch of the rows.
    for folder in ("checkpoint", "bronze"):
        shutil.rmtree(tmp_path / folder)
    artists.update(ARP, {**ARP, "name": "Jean Arp"})
    bronze.flush()
    job.run(spark)
    assert rows(job, spark) == [{**ARP, "name": "Jean Arp"}, BAUER]


@pytest.mark.nightly
def test_repeated_batch_keeps_its_epoch(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    bronze.lsn = 5000
    artists.snapshot(ARP)
    artists.snapshot(BAUER)
    bronze.flush()
    job = pipeline(tmp_path)
    job.run(spark)
    # Restore the state of a crash that happened before the batch was committed.
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "stream" / "commits" / name).unlink()
    shutil.rmtree(tmp_path / "lake")
    job.raise_epoch(spark=spark)
    bronze.lsn, bronze.committed = 10, None
    artists.snapshot({**ARP, "name": "Hans Arp"})
    bronze.flush()
    assert job.run(spark).batches == 2
    assert rows(job, spark) == [{**ARP, "name": "Hans Arp"}, BAUER]
