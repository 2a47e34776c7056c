"""Maintenance of Iceberg tables: when steps are due, their results, and conflicts with concurrent batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.support.iceberg import java_table, name_of
from tests.support.reading import plan_read

from headrace.engine.plan.retry import retry
from headrace.errors import HeadraceError, RetriableError
from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep
from headrace.sdk.sink import MARK_SEARCH_DEPTH, Batch
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.iceberg_maintenance import METADATA_PROPERTIES
from headrace_sinks.small_files import MAX_BYTES, TINY_BYTES, count_small_files, select_small_files

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"
#: All steps are due, and no version is older than an hour.
ALL = MaintenancePolicy(history_seconds=3600, files=2)
NO_HISTORY = MaintenancePolicy(history_seconds=0, files=1000)


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> Target:
    return Target(IcebergSink(warehouse=str(tmp_path)), sessions.of("one"))


def plan(target: Target, policy: MaintenancePolicy = ALL) -> Iterator[MaintenanceStep]:
    return target.sink.plan_maintenance(target.session, target.table, policy)


def maintain(target: Target, policy: MaintenancePolicy = ALL) -> dict[str, str]:
    return {step.name: step.run() for step in plan(target, policy)}


def rows(target: Target) -> dict[int, str]:
    return {row.id: row.name for row in target.sink.read_back(target.session, target.table).collect()}


def test_small_files_are_compacted_and_rows_stay(target: Target) -> None:
    for at in range(4):
        target.write(PEOPLE, put(at, at % 3, f"n{at}"), remove(at, 7, "gone"))
    before = target.sink.measure_table(target.session, target.table)
    assert before is not None
    assert (before.rows, before.files, before.small_files, before.versions) == (3, 4, 4, 4)
    assert before.delete_files
    assert before.maintained is None
    assert maintain(target) == {"compact": "4 files into 1"}
    after = target.sink.measure_table(target.session, target.table)
    assert after is not None
    assert (after.rows, after.files, after.small_files) == (3, 1, 0)
    assert (after.delete_files or 0) <= 1  # Iceberg 1.11 keeps the delete file of the last batch
    assert after.maintained is not None
    assert rows(target) == {0: "n3", 1: "n1", 2: "n2"}
    assert maintain(target) == {}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_small_files_are_compacted_per_partition(tmp_path: Path, sessions: Sessions) -> None:
    sink = IcebergSink({"warehouse": str(tmp_path), "partition.by": {"*": ["name"]}})
    target = Target(sink, sessions.of("one"))
    target.write(PEOPLE, *[put(0, number, f"n{number}") for number in range(6)])
    assert maintain(target) == {}, "a file for each partition is what is needed"
    target.write(PEOPLE, *[put(1, 10 + number, f"n{number}") for number in range(3)], put(1, 20, "more"))
    target.write(PEOPLE, *[put(2, 30 + number, f"n{number}") for number in range(2)])
    size = target.sink.measure_table(target.session, target.table)
    assert size is not None
    assert (size.files, size.small_files) == (12, 8)
    assert maintain(target, replace(ALL, files=7)) == {}, "there are five more than are needed"
    (step,) = plan(target, replace(ALL, files=6))
    assert (step.name, step.what.split(" of ")[0]) == ("compact", "8 files")
    assert step.run() == "8 files into 3"
    assert maintain(target) == {}
    kept = {**{number: f"n{number}" for number in range(6)}, **{10 + number: f"n{number}" for number in range(3)}}
    assert rows(target) == {**kept, 20: "more", 30: "n0", 31: "n1"}


@pytest.mark.one_spark
def test_repeated_batch_after_maintenance_is_skipped(target: Target) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, at, f"n{at}"))
    maintain(target)
    repeated = Batch(target.pipeline, target.batch, "upsert")
    assert target.sink.write(target.table, target.frame(PEOPLE, put(2, 2, "n2")), repeated).skipped
    assert target.write(PEOPLE, put(9, 2, "newer"), put(1, 0, "late")).upserted == 2
    assert rows(target)[2] == "newer"


@pytest.mark.nightly
@pytest.mark.one_spark
def test_open_reader_keeps_its_version_during_maintenance(target: Target) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, at, f"n{at}"))
    open_read = plan_read(target)
    target.write(PEOPLE, put(3, 1, "newer"), remove(3, 2, None))
    assert maintain(target) == {"compact": "4 files into 1"}
    target.write(PEOPLE, put(4, 0, "newer"))
    assert maintain(target).keys() == {"compact"}
    assert {row.id: row.name for row in open_read.collect()} == {0: "n0", 1: "n1", 2: "n2"}
    assert rows(target) == {0: "newer", 1: "newer"}


@pytest.mark.one_spark
def test_nothing_is_due_for_few_files_or_missing_table(target: Target) -> None:
    assert maintain(target) == {}
    assert target.sink.measure_table(target.session, target.table) is None
    for at in range(3):
        target.write(PEOPLE, put(at, at, f"n{at}"))
    assert maintain(target, MaintenancePolicy(history_seconds=3600, files=32)) == {}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_deletes_of_large_files_are_rewritten(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = IcebergSink({"warehouse": str(tmp_path), "write.delete.granularity": "partition"})
    target = Target(sink, sessions.of("one"))
    monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._LARGE_BYTES", 1)  # every file is large
    target.write(PEOPLE, *[put(0, number, "old") for number in range(20)])
    for at in range(1, 6):
        target.write(PEOPLE, remove(at, at, ""))
    size = target.sink.measure_table(target.session, target.table)
    assert size is not None
    assert size.delete_files == 5
    assert maintain(target) == {"rewrite-deletes": "5 delete files into 1"}
    assert rows(target) == {0: "old", **dict.fromkeys(range(6, 20), "old")}


@pytest.mark.one_spark
def test_old_versions_expire_except_newest_and_tagged(target: Target) -> None:
    target.write(PEOPLE, put(0, 1, "first"))
    java = java_table(target)
    tagged = java.currentSnapshot().snapshotId()
    java.manageSnapshots().createTag("audit", tagged).commit()
    for _ in range(MARK_SEARCH_DEPTH + 5):
        java.newAppend().commit()
    target.write(PEOPLE, put(1, 1, "last"))
    assert maintain(target, MaintenancePolicy(history_seconds=3600, files=1000)) == {}
    assert maintain(target, NO_HISTORY) == {"expire": f"57 versions, {MARK_SEARCH_DEPTH + 1} left"}
    assert rows(target) == {1: "last"}
    # A tagged version never makes the expiration due.
    assert maintain(target, NO_HISTORY) == {}
    as_tagged = target.sink.read_back(target.session, target.table, str(tagged))
    assert [row.name for row in as_tagged.collect()] == ["first"]


@pytest.mark.one_spark
def test_newest_version_before_the_history_stays(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause, it is the version that readers saw at the beginning of the history."""
    monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._EXPIRY_SLACK", 1.0)
    for at, name in enumerate(("first", "second")):
        target.write(PEOPLE, put(at, 1, name))
    java = java_table(target)
    time.sleep(0.1)
    begins = time.time()
    time.sleep(0.1)
    for _ in range(MARK_SEARCH_DEPTH + 5):
        java.newAppend().commit()
    policy = MaintenancePolicy(history_seconds=60, files=1000, clock=lambda: begins + 60)
    assert maintain(target, policy) == {"expire": f"57 versions, {MARK_SEARCH_DEPTH + 6} left"}
    as_of = datetime.fromtimestamp(begins, UTC).isoformat(" ", "milliseconds")
    assert [row.name for row in target.sink.read_back(target.session, target.table, as_of).collect()] == ["second"]


@pytest.mark.nightly
@pytest.mark.one_spark
def test_no_version_expires_with_gc_disabled(target: Target) -> None:
    target.write(PEOPLE, put(0, 1, "first"))
    java = java_table(target)
    for _ in range(MARK_SEARCH_DEPTH + 5):
        java.newAppend().commit()
    java.updateProperties().set("gc.enabled", "false").commit()
    assert maintain(target, NO_HISTORY) == {}


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("readers", [(), ("spark",)])
def test_large_files_with_many_deleted_rows_are_rewritten_one_by_one(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, readers: tuple[str, ...]
) -> None:
    sink = IcebergSink({"warehouse": str(tmp_path), "readers": list(readers)})
    target = Target(sink, sessions.of("one"))
    for first in (0, 10, 20):  # one file of ten rows each
        target.apply(target.frame(PEOPLE, *[put(first, first + at, "old") for at in range(10)]).coalesce(1))
    monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._LARGE_BYTES", 1)
    monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance.MAX_BYTES", 2000)
    target.write(PEOPLE, *[remove(30, number, "") for number in (0, 1, 2, 10, 11, 12, 13, 20)])
    policy = MaintenancePolicy(history_seconds=3600, files=2)
    if readers:
        assert next(plan(target, policy)).run()  # deletes by key become position deletes
    kept = dict.fromkeys([*range(3, 10), *range(14, 20), *range(21, 30)], "old")
    found = []
    for count in (6, 7):
        (step,) = [step for step in plan(target, policy) if step.name == "compact"]
        found.append(step.what)
        assert step.exclusive is not bool(readers)
        if readers:
            target.write(PEOPLE, put(40 + count, 20, f"n{count}"))  # a concurrent batch
            kept[20] = f"n{count}"
        assert step.run() == f"{count} of 10 rows kept"
        assert rows(target) == kept
    assert [what.split(", ")[1] for what in found] == ["40% of its rows are deleted", "30% of its rows are deleted"]
    assert [step.name for step in plan(target, policy) if step.name == "compact"] == []


@pytest.mark.nightly
@pytest.mark.one_spark
def test_metadata_cleanup_is_set_unless_configured(target: Target, tmp_path: Path) -> None:
    target.write(PEOPLE, put(0, 1, "a"))
    java = java_table(target)
    assert dict(METADATA_PROPERTIES).items() <= dict(java.properties()).items()
    enabled, maximum, _ = METADATA_PROPERTIES
    java.updateProperties().remove(maximum).set(enabled, "false").commit()
    assert maintain(target) == {"properties": "set"}
    java.refresh()
    assert (java.properties()[enabled], java.properties()[maximum]) == ("false", "100")
    java.updateProperties().set(enabled, "true").set(maximum, "2").commit()
    for at in range(4):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    files = list((tmp_path / target.name.replace(".", "/") / "metadata").glob("*.metadata.json"))
    assert len(files) == 3


@pytest.mark.nightly
@pytest.mark.one_spark
def test_manifests_stay_few_after_many_commits(target: Target) -> None:
    counts = []
    for at in range(12):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
        per_content = target.session.table(f"{name_of(target)}.manifests").groupBy("content").count().collect()
        counts.append(max(row["count"] for row in per_content))
    assert max(counts) < 10
    assert rows(target) == {1: "n11"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_batch_between_plan_and_step_is_kept(target: Target) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, at, f"n{at}"))
    step = next(plan(target))
    target.write(PEOPLE, put(5, 1, "newer"), remove(6, 2, ""))
    step.run()
    assert rows(target) == {0: "n0", 1: "newer"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_concurrent_batches_and_maintenance_of_another_process(target: Target, sessions: Sessions) -> None:
    other = Target(target.sink, sessions.of("other"), name=target.name)
    done: list[str] = []
    failed: list[Exception] = []
    stop = threading.Event()

    def keep_maintaining() -> None:
        while not stop.is_set():
            try:
                done.extend(maintain(other))
            except Exception as error:  # noqa: BLE001 - asserted below
                failed.append(error)

    thread = threading.Thread(target=keep_maintaining)
    target.write(PEOPLE, *[put(0, number, "old") for number in range(10)])
    thread.start()
    for at in range(1, 9):
        frame = target.frame(PEOPLE, put(at, at, f"n{at}"), put(at, 100 + at, "new"), remove(at, 99 + at, ""))
        batch = Batch(target.pipeline, target.batch + 1, "upsert")
        retry(lambda f=frame, b=batch: target.sink.write(target.table, f, b), lambda error: _explain(target, error))  # type: ignore[misc]
        target.batch += 1
    stop.set()
    thread.join()
    assert "compact" in done
    assert all(isinstance(_explain(target, error), RetriableError) for error in failed), failed
    newest = {at: f"n{at}" for at in range(1, 9)}
    assert rows(target) == {**dict.fromkeys(range(10), "old"), **newest, 108: "new"}


def _explain(target: Target, error: Exception) -> HeadraceError:
    return target.sink.explain(error) or HeadraceError(repr(error))


@given(st.lists(st.integers(1, 10**9), max_size=60))
def test_compaction_terminates_and_reduces_files(found: list[int]) -> None:
    sizes, merges = sorted(found), 0
    while (count := count_small_files(sizes, 10**8)) > 1:
        assert sum(sizes[:count]) <= MAX_BYTES
        assert all(size <= max(sum(sizes[:i]), TINY_BYTES) for i, size in enumerate(sizes[:count]))
        sizes, merges = sorted([sum(sizes[:count]), *sizes[count:]]), merges + 1
        assert merges <= len(found)
    tiny = [size for size in sizes if size <= TINY_BYTES]
    assert len(tiny) <= 1


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=8), max_size=12))
def test_compaction_of_partitions_terminates_and_reduces_files(found: list[list[int]]) -> None:
    partitions, merges = [sorted(sizes) for sizes in found], 0
    while (small := select_small_files(partitions, 10**8)).files:
        assert small.surplus >= 1
        fewest = min(sizes[1] for sizes in partitions if count_small_files(sizes, 10**8))
        assert small.bytes <= MAX_BYTES or small.largest == fewest
        merged = [[size for size in sizes if size <= small.largest] for sizes in partitions]
        assert (small.files, small.partitions) == (
            sum(len(sizes) for sizes in merged if len(sizes) > 1),
            sum(len(sizes) > 1 for sizes in merged),
        )
        partitions = [
            sorted([sum(taken), *sizes[len(taken) :]]) if len(taken) > 1 else sizes
            for sizes, taken in zip(partitions, merged, strict=True)
        ]
        merges += 1
        assert merges <= sum(map(len, found))
    assert all(sum(size <= TINY_BYTES for size in sizes) <= 1 for sizes in partitions)


def test_large_partition_does_not_cause_rewrites_of_other_partitions() -> None:
    large = [60 * 2**20] * 2
    partitions = [[1000, 60 * 2**20] for _ in range(100)] + [[1000, 1000], [TINY_BYTES] * 70 + large]
    small = select_small_files(partitions, 128 * 2**20)
    assert (small.files, small.largest) == (72, TINY_BYTES)
