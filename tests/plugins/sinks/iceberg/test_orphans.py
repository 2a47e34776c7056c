"""Files in a table's folders that no version references: removed after three days, unless they might belong elsewhere."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.iceberg import java_table, load_table_handle

from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.active_session import active
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.orphans import ORPHANS_PROPERTY
from headrace_sinks.iceberg.staging import stage_files

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
DAY = 86400.0
#: In four days, a table with a few files has no other step due.
LATER = MaintenancePolicy(history_seconds=10 * DAY, files=1000, clock=lambda: time.time() + 4 * DAY)


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> Target:
    sink = IcebergSink({"warehouse": str(tmp_path), "readers": ["spark"]})
    target = Target(sink, sessions.of("one"))
    target.write(PEOPLE, *[put(0, number, "old") for number in range(4)])
    target.write(PEOPLE, put(1, 1, "new"), remove(1, 2, ""))
    return target


def maintain(target: Target, policy: MaintenancePolicy = LATER) -> dict[str, str]:
    return {step.name: step.run() for step in target.sink.plan_maintenance(target.session, target.table, policy)}


def folder_of(target: Target, tmp_path: Path) -> Path:
    return tmp_path / target.name.replace(".", "/")


def rows(target: Target, as_of: str | None = None) -> dict[int, str]:
    return {row.id: row.name for row in target.sink.read_back(target.session, target.table, as_of).collect()}


def write_file(file: Path, days: float) -> Path:
    """Write a file with an age of ``days`` at the time of the maintenance."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("left")
    at = time.time() + (4 - days) * DAY
    os.utime(file, (at, at))
    return file


def test_old_unreferenced_files_are_removed(target: Target, tmp_path: Path) -> None:
    folder = folder_of(target, tmp_path)
    table_files = {file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")}
    old = [
        write_file(folder / "data" / "00000-left.parquet", 3.5),
        write_file(folder / "data" / "positions-left" / "part-0.parquet", 30),
        write_file(folder / "metadata" / "left-m0.avro", 3.5),
    ]
    recent = write_file(folder / "data" / "00001-under-way.parquet", 2.5)
    others = write_file(folder / "inner" / "data" / "other-table.parquet", 30)
    versions = [str(snapshot.snapshotId()) for snapshot in java_table(target).snapshots()]
    assert maintain(target) == {"remove-orphans": "3 files"}
    assert not any(file.exists() for file in old)
    assert recent.exists()
    assert others.exists()
    assert all(file.exists() for file in table_files)
    assert [rows(target, version) for version in versions] == [
        dict.fromkeys(range(4), "old"),
        {0: "old", 1: "new", 3: "old"},
    ]
    assert maintain(target) == {}
    target.write(PEOPLE, put(2, 2, "back"))
    assert rows(target) == {0: "old", 1: "new", 2: "back", 3: "old"}


@pytest.mark.nightly
@pytest.mark.parametrize("inner", ["data", "metadata", "data.old.people"])
def test_table_inside_the_folder_of_another_table_stays(target: Target, tmp_path: Path, inner: str) -> None:
    other = Target(target.sink, target.session, name=f"{target.name}.{inner}")
    other.write(PEOPLE, put(0, 1, "other"))
    other.write(PEOPLE, put(1, 2, "other"))
    orphan = write_file(folder_of(target, tmp_path) / "data" / "00000-left.parquet", 3.5)
    (result,) = maintain(target).values()
    assert result.startswith("none: ")
    assert str(folder_of(other, tmp_path)) in result
    assert result.endswith(".metadata.json is not metadata of this table")
    assert orphan.exists()
    assert rows(other) == {1: "other", 2: "other"}
    assert maintain(target) == {}, "it is looked at again after three days"
    assert rows(target) == {0: "old", 1: "new", 3: "old"}


def test_files_behind_symbolic_links_are_kept(target: Target, tmp_path: Path) -> None:
    outside = write_file(tmp_path / "outside" / "inner" / "photo.jpg", 30)
    data = folder_of(target, tmp_path) / "data"
    (data / "link").symlink_to(tmp_path / "outside")
    (data / "left.parquet").symlink_to(outside)
    orphan = write_file(data / "00000-left.parquet", 30)
    (result,) = maintain(target).values()
    assert result.startswith("2 files; kept 1 behind symbolic links, such as ")
    assert result.endswith("/data/link/inner/photo.jpg")
    assert (outside.exists(), orphan.exists(), (data / "left.parquet").is_symlink()) == (True, False, False)


def test_files_in_external_data_path_are_kept(tmp_path: Path, sessions: Sessions) -> None:
    sink = IcebergSink({"warehouse": str(tmp_path), "write.data.path": str(tmp_path / "elsewhere")})
    target = Target(sink, sessions.of("one"))
    target.write(PEOPLE, put(0, 1, "new"))
    others = write_file(tmp_path / "elsewhere" / "other.parquet", 30)
    orphan = write_file(folder_of(target, tmp_path) / "metadata" / "left-m0.avro", 30)
    assert maintain(target) == {"remove-orphans": "1 files"}
    assert (others.exists(), orphan.exists()) == (True, False)
    assert rows(target) == {1: "new"}


@pytest.mark.nightly
def test_complete_orphan_metadata_is_removed_and_partial_is_kept(target: Target, tmp_path: Path) -> None:
    metadata = folder_of(target, tmp_path) / "metadata"
    newest = max(metadata.glob("v*.metadata.json"), key=lambda file: int(file.name.split(".")[0][1:]))
    complete = write_file(metadata / "left.metadata.json", 3.5)
    at = complete.stat().st_mtime
    complete.write_bytes(newest.read_bytes())
    os.utime(complete, (at, at))
    assert maintain(target) == {"remove-orphans": "1 files"}
    assert not complete.exists()
    partial = write_file(metadata / "part.metadata.json", 30)
    later = replace(LATER, clock=lambda: time.time() + 8 * DAY)
    assert maintain(target, later)["remove-orphans"].endswith("part.metadata.json is not metadata of this table")
    assert partial.exists()


@pytest.mark.nightly
def test_files_of_a_killed_writer_are_removed(target: Target, tmp_path: Path) -> None:
    with active(target.session):
        orphan = stage_files(load_table_handle(target), target.sink.read_back(target.session, target.table))
    before = rows(target)
    assert maintain(target, MaintenancePolicy(history_seconds=10 * DAY, files=1000)) == {}
    assert maintain(target) == {"remove-orphans": f"{len(orphan)} files"}
    assert rows(target) == before


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("key", "value"), [(ORPHANS_PROPERTY, None), (ORPHANS_PROPERTY, "never"), ("gc.enabled", "false")]
)
def test_tables_without_orphan_removal(target: Target, tmp_path: Path, key: str, value: str | None) -> None:
    update = java_table(target).updateProperties()
    (update.remove(key) if value is None else update.set(key, value)).commit()
    orphan = write_file(folder_of(target, tmp_path) / "data" / "left.parquet", 30)
    assert maintain(target) == {}
    assert orphan.exists()


@pytest.mark.nightly
def test_future_timestamp_makes_nothing_due(target: Target) -> None:
    ahead = round((time.time() + 365 * DAY) * 1000)
    java_table(target).updateProperties().set(ORPHANS_PROPERTY, str(ahead)).commit()
    assert maintain(target) == {}
