from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.delta import DAY, HOUR, folder_of, later, open_table, read_rows

from headrace import ConfigError
from headrace.sdk import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.delta import DeltaSink

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> Target:
    return Target(DeltaSink(path=str(tmp_path)), sessions.of("one"))


def maintain(target: Target, policy: MaintenancePolicy) -> dict[str, str]:
    """Run all steps that are due, and return their names and results."""
    steps = target.sink.plan_maintenance(target.session, target.table, policy)
    return {step.name: step.run() for step in steps}


def make_older(path: Path, seconds: float) -> None:
    """Set the times of a file, or of all files in a folder, back."""
    for file in path.iterdir() if path.is_dir() else [path]:
        before = file.stat().st_mtime - seconds
        os.utime(file, (before, before))


def test_small_files_and_deleted_rows_are_compacted(target: Target, tmp_path: Path) -> None:
    for number in range(3):  # a file has more than one row
        target.write(PEOPLE, *(put(number, 10 * ten + number, "a") for ten in range(6)), mode="append")
    target.write(PEOPLE, put(10, 1, "A"), remove(10, 2, None))
    before, size = target.rows(), target.sink.measure_table(target.session, target.table)
    assert size is not None
    assert (size.rows, size.versions, size.maintained) == (17, 4, None)
    assert size.delete_files
    result = maintain(target, later(0, files=3))
    assert list(result) == ["compact"]
    assert result["compact"].endswith("files into 1")
    assert target.rows() == before
    assert {row["id"]: row["name"] for row in read_rows(tmp_path, target)} == {row["id"]: row["name"] for row in before}
    size = target.sink.measure_table(target.session, target.table)
    assert size is not None
    assert (size.rows, size.files, size.delete_files, size.small_files) == (17, 1, 0, 0)
    assert size.maintained
    assert maintain(target, later(0, files=3)) == {}


@pytest.mark.nightly
def test_old_versions_expire_and_batches_are_still_known(tmp_path: Path, sessions: Sessions) -> None:
    target = Target(DeltaSink({"path": str(tmp_path), "delta.checkpointInterval": 2}), sessions.of("one"))
    for number in range(3):
        target.write(PEOPLE, put(number, 1, f"name {number}"))
    rows = target.rows()
    assert maintain(target, later(1.2 * HOUR, files=99)) == {}
    make_older(folder_of(tmp_path, target) / "_delta_log", HOUR)
    assert maintain(target, later(0, history=0.0, files=99)) == {"expire": "3 versions, 1 left"}
    assert target.rows() == rows
    assert read_rows(tmp_path, target) == rows
    assert len(list(folder_of(tmp_path, target).glob("*.parquet"))) == 1
    expired = target.refusal(lambda: target.rows("0"))
    assert isinstance(expired, ConfigError)
    assert "no version as old as '0'" in str(expired)
    assert maintain(target, later(0, history=0.0, files=99)) == {}
    assert target.write_again(PEOPLE, put(2, 1, "name 2")).skipped
    target.write(PEOPLE, put(12, 2, "new"), mode="append")
    assert maintain(target, later(0, history=0.0, files=99)).keys() == {"expire"}
    assert [row["id"] for row in target.rows()] == [1, 2]


@pytest.mark.nightly
def test_orphan_files_are_removed(target: Target, tmp_path: Path) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    orphans = [folder_of(tmp_path, target) / f"part-{name}.parquet" for name in ("old", "new")]
    for orphan in orphans:
        orphan.write_bytes(b"of a killed writer")
    make_older(orphans[0], 4 * DAY)
    assert "remove-orphans" not in maintain(target, later(2.9 * DAY, history=0.0, files=99))
    assert maintain(target, later(3.1 * DAY, history=0.0, files=99))["remove-orphans"] == "removed"
    assert [orphan.exists() for orphan in orphans] == [False, True]
    assert open_table(tmp_path, target).metadata().configuration["headrace.orphans"]
    assert target.rows() == [{"id": 1, "name": "a"}]
    assert "remove-orphans" not in maintain(target, later(3.2 * DAY, history=0.0, files=99))
