"""Files in a table's folders that no version names: which are removed, and which never."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.iceberg import java_table, load_handle

from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.iceberg_catalog import active
from headrace_sinks.iceberg.orphans import ORPHANS_PROPERTY
from headrace_sinks.iceberg.staging import stage_files

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
DAY = 86400.0
#: In four days nothing else is due of a few files.
LATER = MaintenancePolicy(history_seconds=10 * DAY, files=1000, clock=lambda: time.time() + 4 * DAY)


@pytest.fixture
def target(tmp_path: Path, clones: Sessions) -> Target:
    sink = IcebergSink({"warehouse": str(tmp_path), "readers": ["spark"]})
    target = Target(sink, clones.of("one"))
    target.write(PEOPLE, *[put(0, number, "old") for number in range(4)])
    target.write(PEOPLE, put(1, 1, "new"), remove(1, 2, ""))
    return target


def maintain(target: Target, upkeep: MaintenancePolicy = LATER) -> dict[str, str]:
    return {step.name: step.run() for step in target.sink.plan_maintenance(target.session, target.table, upkeep)}


def folder_of(target: Target, tmp_path: Path) -> Path:
    return tmp_path / target.name.replace(".", "/")


def rows(target: Target, as_of: str | None = None) -> dict[int, str]:
    return {row.id: row.name for row in target.sink.read_back(target.session, target.table, as_of).collect()}


def leave(file: Path, days: float) -> Path:
    """A file that was written so many days before the time of the looks."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("left")
    at = time.time() + (4 - days) * DAY
    os.utime(file, (at, at))
    return file


def test_what_no_version_names_is_removed_once_it_is_old(target: Target, tmp_path: Path) -> None:
    folder = folder_of(target, tmp_path)
    mine = {file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")}
    old = [
        leave(folder / "data" / "00000-left.parquet", 3.5),
        leave(folder / "data" / "positions-left" / "part-0.parquet", 30),
        leave(folder / "metadata" / "left-m0.avro", 3.5),
    ]
    young = leave(folder / "data" / "00001-under-way.parquet", 2.5)
    others = leave(folder / "inner" / "data" / "other-table.parquet", 30)
    versions = [str(snapshot.snapshotId()) for snapshot in java_table(target).snapshots()]
    assert maintain(target) == {"remove-orphans": "3 files"}
    assert not any(file.exists() for file in old)
    assert young.exists()
    assert others.exists()
    assert all(file.exists() for file in mine)
    assert [rows(target, version) for version in versions] == [
        dict.fromkeys(range(4), "old"),
        {0: "old", 1: "new", 3: "old"},
    ]
    assert maintain(target) == {}
    target.write(PEOPLE, put(2, 2, "back"))
    assert rows(target) == {0: "old", 1: "new", 2: "back", 3: "old"}


@pytest.mark.nightly
@pytest.mark.parametrize("inner", ["data", "metadata", "data.old.people"])
def test_a_table_whose_folder_is_in_anothers_stays(target: Target, tmp_path: Path, inner: str) -> None:
    other = Target(target.sink, target.session, name=f"{target.name}.{inner}")
    other.write(PEOPLE, put(0, 1, "other"))
    other.write(PEOPLE, put(1, 2, "other"))
    left = leave(folder_of(target, tmp_path) / "data" / "00000-left.parquet", 3.5)
    (said,) = maintain(target).values()
    assert said.startswith("none: ")
    assert str(folder_of(other, tmp_path)) in said
    assert said.endswith(".metadata.json is not metadata of this table")
    assert left.exists()
    assert rows(other) == {1: "other", 2: "other"}
    assert maintain(target) == {}, "it is looked at again after three days"
    assert rows(target) == {0: "old", 1: "new", 3: "old"}


def test_files_of_rows_that_lie_elsewhere_are_left_alone(tmp_path: Path, clones: Sessions) -> None:
    sink = IcebergSink({"warehouse": str(tmp_path), "write.data.path": str(tmp_path / "elsewhere")})
    target = Target(sink, clones.of("one"))
    target.write(PEOPLE, put(0, 1, "new"))
    others = leave(tmp_path / "elsewhere" / "other.parquet", 30)
    left = leave(folder_of(target, tmp_path) / "metadata" / "left-m0.avro", 30)
    assert maintain(target) == {"remove-orphans": "1 files"}
    assert (others.exists(), left.exists()) == (True, False)
    assert rows(target) == {1: "new"}


@pytest.mark.nightly
def test_metadata_that_a_killed_writer_left_is_removed_where_it_is_whole(target: Target, tmp_path: Path) -> None:
    metadata = folder_of(target, tmp_path) / "metadata"
    newest = max(metadata.glob("v*.metadata.json"), key=lambda file: int(file.name.split(".")[0][1:]))
    whole = leave(metadata / "left.metadata.json", 3.5)
    at = whole.stat().st_mtime
    whole.write_bytes(newest.read_bytes())
    os.utime(whole, (at, at))
    assert maintain(target) == {"remove-orphans": "1 files"}
    assert not whole.exists()
    part = leave(metadata / "part.metadata.json", 30)
    later = replace(LATER, clock=lambda: time.time() + 8 * DAY)
    assert maintain(target, later)["remove-orphans"].endswith("part.metadata.json is not metadata of this table")
    assert part.exists()


@pytest.mark.nightly
def test_files_that_a_killed_writer_left(target: Target, tmp_path: Path) -> None:
    with active(target.session):
        left = stage_files(load_handle(target), target.sink.read_back(target.session, target.table))
    before = rows(target)
    assert maintain(target, MaintenancePolicy(history_seconds=10 * DAY, files=1000)) == {}
    assert maintain(target) == {"remove-orphans": f"{len(left)} files"}
    assert rows(target) == before


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("key", "value"), [(ORPHANS_PROPERTY, None), (ORPHANS_PROPERTY, "never"), ("gc.enabled", "false")]
)
def test_tables_in_whose_folders_nothing_is_looked_for(
    target: Target, tmp_path: Path, key: str, value: str | None
) -> None:
    update = java_table(target).updateProperties()
    (update.remove(key) if value is None else update.set(key, value)).commit()
    left = leave(folder_of(target, tmp_path) / "data" / "left.parquet", 30)
    assert maintain(target) == {}
    assert left.exists()


@pytest.mark.nightly
def test_a_clock_that_was_ahead_makes_nothing_due(target: Target) -> None:
    ahead = round((time.time() + 365 * DAY) * 1000)
    java_table(target).updateProperties().set(ORPHANS_PROPERTY, str(ahead)).commit()
    assert maintain(target) == {}
