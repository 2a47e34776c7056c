"""Changes of a table between two versions: applied to the older version, they give the newer one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze, Topic
from tests.support.memory_sink import MemorySink
from tests.support.pipelines import COLUMNS, TABLE, TABLE_SINKS, TOPIC, pipeline, rows
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline, read_changes
from headrace.engine.commands.table_changes import diff_versions
from headrace_sources.transports.files import FilesSource
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TAGS = {"type": "map", "values": "string"}


def make_pipeline(folder: Path, sink: str) -> Pipeline:
    if sink != "memory":
        return pipeline(folder, sink)
    source = FilesSource(path=str(folder / "bronze"), format="avro")
    tables = [{"source": TOPIC, "key": ["artist_id"], "target": TABLE}]
    store = MemorySink(store=str(folder))
    return Pipeline("artists", source, [store], str(folder / "checkpoint"), tables=tables, transforms=[Unwrap()])


def change_rows(random: Random, artists: Topic, table: dict[int, dict[str, Any]]) -> None:
    """Insert, update, delete and rename keys of some rows."""
    for _ in range(random.randint(1, 6)):
        key = random.randint(1, 8)
        row = {"artist_id": key, "name": random.choice(["Arp", "Höch"]), "nationality": None, "tags": {"a": str(key)}}
        old = table.get(key)
        if old is None:
            artists.insert(row)
            table[key] = row
        elif random.random() < 0.4:
            artists.delete(old)
            del table[key]
        else:
            artists.update(old, row)
            table[key] = row


def apply_changes(older: Sequence[dict[str, Any]], changes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows after the changes, each of which must fit the rows."""
    table = {row["artist_id"]: row for row in older}
    for change in changes:
        before, after = (part and part.asDict(recursive=True) for part in change[1:])
        assert change["op"] == {(True, False): "c", (False, False): "u", (False, True): "d"}[not before, not after]
        image = before or after
        assert image is not None
        assert before == table.pop(image["artist_id"], None)
        assert before != after
        if after is not None:
            table[after["artist_id"]] = after
    return [table[key] for key in sorted(table)]


@pytest.mark.parametrize("sink", nightly_after(1, ["memory", *TABLE_SINKS, "delta"]))
def test_changes_lead_from_each_version_to_each_later_one(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    random = Random(7)
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns={**COLUMNS, "tags": TAGS})
    job, table, versions = make_pipeline(tmp_path, sink), dict[int, dict[str, Any]](), list[str]()
    for _ in range(3):
        change_rows(random, artists, table)
        bronze.flush()
        job.run(spark, on_progress=lambda progress: versions.append(str(progress.tables[0].version)))
    known = [rows(job, spark, as_of=version) for version in versions]
    for older, newer in combinations(range(len(versions)), 2):
        changes = job.read_changes(TABLE, versions[older], versions[newer], spark=spark).collect()
        assert apply_changes(known[older], changes) == known[newer]
    newest = read_changes(job, TABLE, versions[0], spark=spark).collect()
    assert apply_changes(known[0], newest) == [table[key] for key in sorted(table)]
    assert not job.read_changes(TABLE, versions[-1], spark=spark).collect()


def test_added_column_is_part_of_the_changes(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    arp = {"artist_id": 1, "name": "Arp", "nationality": "French"}
    artists.snapshot(arp)
    artists.snapshot({**arp, "artist_id": 2})
    bronze.flush()
    job = make_pipeline(tmp_path, "memory")
    job.run(spark)
    artists.columns["born"] = "int"
    artists.update({**arp, "born": None}, {**arp, "born": 1886})
    artists.update({**arp, "artist_id": 2, "born": None}, {**arp, "artist_id": 2, "born": None})
    bronze.flush()
    job.run(spark)
    (change,) = job.read_changes(TABLE, "v1", spark=spark).collect()
    assert (change["op"], change["before"].asDict(), change["after"].asDict()) == ("u", arp, {**arp, "born": 1886})


def test_table_without_a_key_has_no_changes(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze", "json")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "French"})
    bronze.flush()
    source = FilesSource(path=str(tmp_path / "bronze"), format="json")
    store = MemorySink(store=str(tmp_path))
    job = Pipeline("artists", source, [store], str(tmp_path / "checkpoint"), transforms=[Unwrap()])
    job.run(spark)
    with pytest.raises(ConfigError, match="no key by which versions can be compared"):
        job.read_changes(TOPIC, "v1", spark=spark)


def test_rows_of_another_writer_are_compared_by_their_values(spark: SparkSession) -> None:
    def version(*names: str) -> DataFrame:
        rows = ", ".join(f"({number}, '{name}')" for number, name in enumerate(names))
        return spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, name)")

    changes = diff_versions(version("Arp", "H"), version("Arp", "Höch", "Ray"), key=("id",), hidden_prefixes=("_",))
    found = {(op, before and before["name"], after and after["name"]) for op, before, after in changes.collect()}
    assert found == {("u", "H", "Höch"), ("c", None, "Ray")}


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_are_compared_to_the_microsecond(spark: SparkSession, kind: str) -> None:
    def version(*ends: str) -> DataFrame:
        rows = ", ".join(f"({number}, {kind} '2026-11-01 01:30:00.{end}')" for number, end in enumerate(ends))
        return spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, at)")

    changes = diff_versions(version("123456", "1"), version("123457", "1"), key=("id",), hidden_prefixes=("_",))
    assert [(op, before["id"]) for op, before, _ in changes.collect()] == [("u", 0)]
