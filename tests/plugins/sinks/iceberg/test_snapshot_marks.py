"""Marks of batches in the snapshots of a table, without Spark."""

from __future__ import annotations

import pytest

from headrace.sdk.sink import Batch
from headrace_sinks.iceberg.snapshot_marks import CARRIED, MAX_CARRIED, CarriedMarks, SnapshotMarks

Snapshots = list[dict[str, str]]


def read(snapshots: Snapshots, depth: int) -> SnapshotMarks:
    """Return the marks of the newest snapshots."""
    newest = snapshots[: -depth - 1 : -1]
    carried = [CarriedMarks.parse(s[CARRIED]) for s in newest if CARRIED in s]
    return SnapshotMarks([s["mark"] for s in newest if "mark" in s], carried, is_whole=depth >= len(snapshots))


def append(snapshots: Snapshots, pipeline: str, number: int, depth: int = 1) -> bool | None:
    """Commit a batch, and return whether the table seemed to have it."""
    batch, marks = Batch(pipeline, number, "append", digest="1"), read(snapshots, depth)
    snapshots.append({"mark": batch.mark, **marks.carry(batch)})
    return marks.is_applied(batch)


def test_batches_of_many_pipelines_are_known_after_many_commits() -> None:
    snapshots: Snapshots = []
    for number in range(3):
        for pipeline in ("a", "b", "a/replay/1", "c"):
            assert append(snapshots, pipeline, number) is False
    for pipeline in ("a", "b", "a/replay/1", "c"):
        assert read(snapshots, 1).is_applied(Batch(pipeline, 2, "append", digest="1"))
        assert read(snapshots, 1).is_applied(Batch(pipeline, 2, "append", digest="2")) is None
        assert read(snapshots, 1).is_applied(Batch(pipeline, 3, "append", digest="1")) is False


def test_commits_of_other_writers_between_batches() -> None:
    snapshots: Snapshots = []
    append(snapshots, "a", 0)
    append(snapshots, "b", 0)
    snapshots.append({})
    assert read(snapshots, 2).is_applied(Batch("a", 0, "append", digest="1"))
    assert read(snapshots, 2).is_applied(Batch("c", 0, "append")) is False
    assert append(snapshots, "c", 0, depth=1) is None
    assert append(snapshots, "d", 0, depth=1) is None  # the snapshot before does not have the marks of a and b
    assert append(snapshots, "c", 1, depth=1) is False


def test_concurrent_appends_carry_older_marks() -> None:
    snapshots: Snapshots = []
    append(snapshots, "a", 0)
    append(snapshots, "b", 0)
    outdated = read(snapshots, 2).carry(Batch("b", 1, "append"))
    append(snapshots, "a", 1)
    snapshots.append({"mark": "b:1:1", **outdated})
    assert read(snapshots, 2).is_applied(Batch("a", 1, "append", digest="1"))
    append(snapshots, "b", 2, depth=2)
    assert read(snapshots, 2).is_applied(Batch("a", 1, "append", digest="1"))


@pytest.mark.parametrize(("prefix", "is_applied"), [("p", None), ("p/replay/", False)])
def test_number_of_carried_marks_is_limited(prefix: str, is_applied: bool | None) -> None:
    snapshots: Snapshots = []
    for number in range(MAX_CARRIED + 2):
        append(snapshots, f"{prefix}{number}", 0)
    assert len(CarriedMarks.parse(snapshots[-1][CARRIED]).marks) == MAX_CARRIED
    assert append(snapshots, "new", 0) is is_applied
    assert append(snapshots, "new/replay/1", 0) is None


def test_table_of_older_version_without_carried_marks() -> None:
    snapshots: Snapshots = [{"mark": f"a:{number}:1"} for number in range(3)]
    assert append(snapshots, "b", 0) is None
    for number in range(3, 6):
        assert append(snapshots, "a", number, depth=2) is False
    assert append(snapshots, "b", 1) is False
    assert append(snapshots, "c", 0) is None
    assert append(snapshots, "d", 0, depth=10) is False
    assert append(snapshots, "e", 0) is False
