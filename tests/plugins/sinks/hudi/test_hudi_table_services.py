"""Maintenance of Hudi tables: when steps are due, their results, and recovery after a killed process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.hudi import load_table_services
from tests.support.reading import plan_read
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep, TableSize
from headrace.sdk.sink import Batch
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink
from headrace_sinks.hudi.hudi_table_services import _HEARTBEAT, list_planned
from headrace_sinks.hudi.hudi_timeline import next_instant, open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

MODULE = "headrace_sinks.hudi.hudi_table_services"
PEOPLE = "id int, name string"
#: All steps are due, and no version is older than an hour.
ALL = MaintenancePolicy(history_seconds=3600, files=2)
NO_HISTORY = MaintenancePolicy(history_seconds=0, files=1000)
NOT_DUE = MaintenancePolicy(history_seconds=3600, files=1000)


class MaintainedTarget(Target):
    """Table that the run maintains."""

    def apply(self, frame: Any, mode: Any = None) -> Any:
        batch = Batch(self.pipeline, self.batch + 1, mode or self.mode, is_maintained=True)
        result = self.sink.write(self.table, frame, batch)
        self.batch += 1
        return result

    def plan(self, policy: MaintenancePolicy = ALL) -> Iterator[MaintenanceStep]:
        return self.sink.plan_maintenance(self.session, self.table, policy)

    def maintain(self, policy: MaintenancePolicy = ALL) -> list[str]:
        return [f"{step.name}: {step.run()}" for step in self.plan(policy)]

    def measure(self) -> TableSize:
        size = self.sink.measure_table(self.session, self.table)
        assert size is not None
        return size

    def names(self, as_of: str | None = None) -> dict[int, str]:
        return {row["id"]: row["name"] for row in self.rows(as_of)}


def make(folder: Path, sessions: Sessions, **options: Any) -> MaintainedTarget:
    return MaintainedTarget(
        HudiSink({"path": str(folder), "hoodie.bucket.index.num.buckets": 1, **options}), sessions.of("one")
    )


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> MaintainedTarget:
    return make(tmp_path, sessions)


def timeline(folder: Path, target: Target) -> list[str]:
    metadata = folder / target.name.replace(".", "/") / ".hoodie"
    found = ((metadata / "timeline") if (metadata / "timeline").exists() else metadata).iterdir()
    return sorted(file.name.partition(".")[2] for file in found if not file.name.startswith("."))


def test_log_files_are_compacted_and_rows_stay(target: MaintainedTarget) -> None:
    schema = "id int, name string, born date, tags array<string>"
    target.write(schema, *[put(0, number, "old", date(1, 1, 1), ["a", None]) for number in range(5)])
    for at in range(1, 4):
        target.write(schema, put(at, at, f"n{at}", date(1500, 3, 4), [None]), put(at, 10, f"n{at}", None, None))
    target.write(schema, put(0, 3, "late", None, None), remove(9, 2, None, None, None))
    before, rows = target.measure(), target.rows()
    assert (before.rows, before.files, before.delete_files, before.versions) == (None, 1, 4, 5)
    assert before.maintained is None
    assert target.maintain() == ["compact: planned", "compact: 4 log files into 1"]
    after = target.measure()
    assert (after.rows, after.files, after.delete_files, after.versions) == (5, 1, 0, 6)
    assert after.maintained is not None
    assert target.rows() == rows
    assert target.names() == {0: "old", 1: "n1", 3: "n3", 4: "old", 10: "n3"}
    assert target.maintain() == []
    assert target.write_again(schema, put(9, 9, "not read", None, None)).skipped
    target.write(schema, put(10, 1, "newer", None, None), put(1, 3, "late", None, None))
    assert target.names() == {0: "old", 1: "newer", 3: "n3", 4: "old", 10: "n3"}


@pytest.mark.nightly
def test_batch_compacts_only_tables_without_maintenance(tmp_path: Path, target: MaintainedTarget) -> None:
    for at in range(6):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    assert "compaction.requested" not in timeline(tmp_path, target)
    exclusive_steps = Target(target.sink, target.session, name=target.name)
    exclusive_steps.write(PEOPLE, put(6, 1, "n6"))
    assert "compaction.requested" in timeline(tmp_path, target)
    assert target.names() == {1: "n6"}


def test_nothing_is_due_for_few_log_files_or_missing_table(target: MaintainedTarget) -> None:
    assert target.maintain() == []
    assert target.sink.measure_table(target.session, target.table) is None
    for at in range(3):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    assert target.maintain(MaintenancePolicy(history_seconds=3600, files=32)) == []


@pytest.mark.nightly
def test_open_reader_keeps_its_version_during_maintenance(target: MaintainedTarget) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, at, f"n{at}"))
    open_read = plan_read(target)
    target.write(PEOPLE, put(3, 1, "newer"), remove(3, 2, None))
    assert target.maintain()[-1] == "compact: 3 log files into 1"
    for at in (4, 5):
        target.write(PEOPLE, put(at, 0, f"n{at}"))
    assert target.maintain()[-1] == "compact: 2 log files into 1"
    assert {row.id: row.name for row in open_read.collect()} == {0: "n0", 1: "n1", 2: "n2"}
    assert target.names() == {0: "n5", 1: "newer"}


@pytest.mark.nightly
def test_configured_services_are_left_to_hudi(tmp_path: Path, sessions: Sessions) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": 2, "hoodie.clean.commits.retained": 3}
    target = make(tmp_path, sessions, **options)
    for at in range(3):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    target.write(PEOPLE, put(3, 1, "n3"))
    assert "compaction.requested" in timeline(tmp_path, target)
    assert target.maintain() == target.maintain(NO_HISTORY) == []


@pytest.mark.parametrize("kind", nightly_after(1, ["MERGE_ON_READ", "COPY_ON_WRITE"]))
def test_history_is_readable_and_older_versions_are_removed(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(f"{MODULE}._SLACK", 1.0)
    target = make(tmp_path, sessions, **{"table.type": kind})
    versions, started = list[str | None](), 0.0
    for at in range(6):
        versions.append(target.write(PEOPLE, put(at, 1, f"n{at}"), put(at, at + 10, "new")).version)
        if at in (1, 3):
            target.maintain(MaintenancePolicy(history_seconds=3600, files=1))
            started = time.time()
    before, count = count_files(tmp_path), target.measure().versions
    assert target.maintain(NOT_DUE) == []
    # The newest version before the start stays, and three later versions.
    now = time.time()
    policy = MaintenancePolicy(history_seconds=now - started, files=1000, clock=lambda: now)
    (step,) = target.plan(policy)
    target.write(PEOPLE, put(6, 1, "n6"), put(6, 16, "new"))  # a batch between the plan and the step
    assert (step.name, step.run()) == ("expire", f"{(count or 0) + 1} versions, 4 left")
    assert target.measure().versions == 4
    assert count_files(tmp_path) < before
    assert target.names(versions[4]) == {1: "n4", **{at + 10: "new" for at in range(5)}}
    assert target.names() == {1: "n6", **{at + 10: "new" for at in range(7)}}
    with pytest.raises(ConfigError, match=r"(?s)has no version as old as .*raise `history` .* under `maintenance:`"):
        target.names(versions[1])
    assert target.write_again(PEOPLE, put(9, 9, "not read")).skipped
    assert target.maintain(policy) == []


def set_limits(monkeypatch: pytest.MonkeyPatch, **limits: float) -> None:
    """Lower the limits of the module to values that tests reach with a few commits."""
    for name, value in limits.items():
        monkeypatch.setattr(f"{MODULE}.{name}", value)


def count_files(folder: Path) -> int:
    return sum(file.suffix == ".parquet" or ".log." in file.name for file in folder.glob("kit/*/*"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "options",
    [
        {"table.type": "MERGE_ON_READ"},
        {"table.type": "COPY_ON_WRITE"},
        {"table.type": "COPY_ON_WRITE", "hoodie.write.table.version": 6},
    ],
    ids=["merge on read", "copy on write", "copy on write, version 6"],
)
def test_archived_commits_are_readable_versions(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    set_limits(monkeypatch, MARK_SEARCH_DEPTH=4, _ARCHIVED_AT_ONCE=1, _COMMITS_AT_ONCE=0, _SLACK=1.0)
    target = make(tmp_path, sessions, **options)
    versions, contents, started, done = list[str | None](), list[dict[int, str]](), 0.0, list[str]()
    for at in range(13):
        result = target.write(PEOPLE, put(at, at % 3, f"n{at}"), put(at, 100 + at, "new"), remove(at, 99 + at, None))
        versions.append(result.version)
        contents.append(target.names())
        if at in (2, 5, 8, 11):
            done += target.maintain(MaintenancePolicy(history_seconds=3600, files=1))
            started = time.time() if at == 5 else started
    assert any(text.startswith("archive: ") for text in done)
    assert not any(text.startswith("expire: ") for text in done)
    assert sum(name.endswith("commit") for name in timeline(tmp_path, target)) <= 7
    assert [target.names(version) for version in versions] == contents
    compactions = sum("log files into" in text for text in done)
    assert (options["table.type"] == "MERGE_ON_READ") == (compactions == 4)
    assert target.measure().versions == 13 + compactions

    before, now = count_files(tmp_path), time.time()
    policy = MaintenancePolicy(history_seconds=now - started, files=1000, clock=lambda: now)
    (expired,) = [text for text in target.maintain(policy) if not text.startswith("archive: ")]
    left = target.measure().versions
    assert expired == f"expire: {13 + compactions} versions, {left} left"
    assert left == 8 + compactions // 2
    assert count_files(tmp_path) < before
    # The newest version before the start stays; it is the compaction if there are compactions.
    kept = 6 if compactions else 5
    assert [target.names(version) for version in versions[kept:]] == contents[kept:]
    with pytest.raises(ConfigError, match="has no version as old as"):
        target.names(versions[4])
    assert target.write_again(PEOPLE, put(99, 9, "not read")).skipped
    assert target.maintain(policy) == []
    newest = []
    for at in range(99, 105):
        target.write(PEOPLE, put(at, 1, f"n{at}"), put(0, 2, "late"))
        newest += target.maintain(MaintenancePolicy(history_seconds=3600, files=1))
    assert any(text.startswith("archive: ") for text in newest)
    assert target.names() == {**contents[-1], 1: "n104"}
    assert target.measure().versions == left + 6 + sum("log files into" in text for text in newest)
    assert [target.names(version) for version in versions[kept:]] == contents[kept:]
    with pytest.raises(ConfigError, match="has no version as old as"):
        target.names(versions[4])


@pytest.mark.nightly
def test_nothing_is_archived_before_a_savepoint(
    tmp_path: Path, target: MaintainedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, MARK_SEARCH_DEPTH=3, _ARCHIVED_AT_ONCE=1, _COMMITS_AT_ONCE=0, _SLACK=1.0)
    versions, contents = list[str | None](), list[dict[int, str]]()
    for at in range(10):
        versions.append(target.write(PEOPLE, put(at, at % 2, f"n{at}"), put(at, 100 + at, "new")).version)
        contents.append(target.names())
        if at == 2:
            with load_table_services(target).open_client({}) as client:
                client.savepoint("somebody", "to keep")
        if at % 2:
            done = target.maintain(MaintenancePolicy(history_seconds=3600, files=1))
            assert not any(text.startswith("archive: ") for text in done)
    assert [target.names(version) for version in versions] == contents
    assert any(text.startswith("expire: ") for text in target.maintain(MaintenancePolicy(history_seconds=0, files=1)))
    instants = [file.stem.split("_")[-1] for file in tmp_path.glob("kit/*/*.parquet")]
    assert any(instant <= str(versions[2]) for instant in instants), instants  # the savepoint's instant
    assert target.names() == contents[-1]
    assert target.write_again(PEOPLE, put(9, 9, "not read")).skipped


@pytest.mark.nightly
def test_commits_of_uncompacted_log_files_are_not_archived(
    tmp_path: Path, target: MaintainedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other engines identify a log file by its commit, and some do not read the archive."""
    set_limits(monkeypatch, MARK_SEARCH_DEPTH=2, _ARCHIVED_AT_ONCE=1, _COMMITS_AT_ONCE=0)
    for at in range(7):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    assert target.maintain(NOT_DUE) == []
    target.maintain(MaintenancePolicy(history_seconds=3600, files=2))
    target.write(PEOPLE, put(7, 1, "n7"))
    assert target.maintain(NOT_DUE) == []  # the compaction and the batch
    assert timeline(tmp_path, target).count("deltacommit") == 2  # Hudi keeps one earlier commit
    assert target.write_again(PEOPLE, put(9, 9, "not read")).skipped
    assert target.names() == {1: "n7"}


def plan_compaction(target: MaintainedTarget) -> None:
    next(target.plan()).run()


def interrupt_compaction(target: MaintainedTarget) -> None:
    """Leave the state of a process that was killed during a compaction."""
    plan_compaction(target)
    services = load_table_services(target)
    with services.open_client(_HEARTBEAT) as client:
        (instant,) = list_planned(open_table(services.spark, services.path))
        client.compact(instant, False).getWriteStatuses().collect()


def plan_clean(target: MaintainedTarget) -> None:
    target.maintain()
    for at in (5, 6):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    target.maintain()
    services = load_table_services(target)
    with services.open_client({"hoodie.clean.commits.retained": "1"}) as client:
        hudi = services._hudi
        clean = hudi.common.model.TableServiceType.CLEAN
        assert client.scheduleTableService(hudi.common.util.Option.empty(), clean).isPresent()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("interrupt", "policy", "done"),
    [
        (plan_compaction, NOT_DUE, ["compact: 3 log files into 1"]),
        (interrupt_compaction, NOT_DUE, ["compact: 3 log files into 1"]),
        (plan_clean, NO_HISTORY, ["expire: 9 versions, 1 left"]),
    ],
)
def test_next_maintenance_completes_steps_of_a_killed_process(
    tmp_path: Path,
    target: MaintainedTarget,
    interrupt: Callable[[MaintainedTarget], None],
    policy: MaintenancePolicy,
    done: list[str],
) -> None:
    for at in range(4):
        target.write(PEOPLE, put(at, 1, f"n{at}"), put(at, at + 10, "new"))
    interrupt(target)
    target.write(PEOPLE, put(7, 1, "n7"), remove(7, 10, None))
    rows = {1: "n7", 11: "new", 12: "new", 13: "new"}
    assert target.names() == rows
    for heartbeat in tmp_path.rglob(".heartbeat/*"):
        os.utime(heartbeat, (0, 0))
    assert target.maintain(policy) == done
    assert target.names() == rows
    target.write(PEOPLE, put(8, 1, "n8"))
    assert target.maintain(NOT_DUE) == []
    assert target.names() == {**rows, 1: "n8"}


@pytest.mark.nightly
def test_compaction_of_a_running_process_is_not_repeated(target: MaintainedTarget) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    interrupt_compaction(target)
    assert target.maintain() == []


@pytest.mark.nightly
def test_next_maintenance_repeats_a_failed_compaction(tmp_path: Path, target: MaintainedTarget) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, 1, f"n{at}"))
    (base,) = tmp_path.rglob("*.parquet")
    checksum, content = base.with_name(f".{base.name}.crc"), base.read_bytes()
    checksum.unlink()
    base.write_bytes(content[:-100] + bytes(100))
    with pytest.raises(Exception, match="is not a Parquet file"):
        target.maintain()
    target.write(PEOPLE, put(5, 2, "b"))
    base.write_bytes(content)
    assert target.names() == {1: "n2", 2: "b"}
    assert target.maintain() == ["compact: 2 log files into 1"]
    assert target.names() == {1: "n2", 2: "b"}


@pytest.mark.nightly
def test_steps_are_exclusive_with_the_metadata_table(tmp_path: Path, sessions: Sessions) -> None:
    target = make(tmp_path, sessions, **{"hoodie.metadata.enable": True})
    exclusive_steps = []
    for at in range(3):
        target.write(PEOPLE, put(at, 1, f"n{at}"), put(at, at + 10, "new"))
        for step in target.plan(MaintenancePolicy(history_seconds=0, files=1)):
            exclusive_steps.append((step.name, step.exclusive))
            step.run()
    assert set(exclusive_steps) == {("compact", True), ("expire", True)}
    assert target.names() == {1: "n2", 10: "new", 11: "new", 12: "new"}


@pytest.mark.nightly
def test_batch_completes_while_a_compaction_is_planned(
    target: MaintainedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def complete_a_batch(spark: SparkSession, table: Any) -> str | None:
        instant = next_instant(spark, table)
        target.write(PEOPLE, put(9, 1, "meanwhile"), put(9, 5, "new"), remove(9, 2, None))
        return instant

    target.write(PEOPLE, *[put(0, number, "old") for number in range(4)])
    for at in range(1, 4):
        target.write(PEOPLE, put(at, 0, f"n{at}"))
    monkeypatch.setattr(f"{MODULE}.hudi_timeline.next_instant", complete_a_batch)
    plan = target.plan()
    next(plan).run()
    target.write(PEOPLE, put(10, 3, "later"))
    expected = {0: "n3", 1: "meanwhile", 3: "later", 5: "new"}
    assert target.names() == expected
    assert [step.run() for step in plan] == ["3 log files into 1"]
    assert target.names() == expected
    assert target.measure().delete_files == 2


@pytest.mark.nightly
def test_concurrent_batches_and_maintenance_of_another_process(
    target: MaintainedTarget, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, MARK_SEARCH_DEPTH=3, _ARCHIVED_AT_ONCE=1, _COMMITS_AT_ONCE=1)
    other = MaintainedTarget(target.sink, sessions.of("other"), name=target.name)
    done: list[str] = []
    stop = threading.Event()

    def keep_maintaining() -> None:
        while not stop.is_set():
            done.extend(other.maintain(MaintenancePolicy(history_seconds=0, files=2)))

    target.write(PEOPLE, *[put(0, number, "old") for number in range(10)])
    with ThreadPoolExecutor(1) as pool:
        maintaining = pool.submit(keep_maintaining)
        for at in range(1, 9):
            target.write(PEOPLE, put(at, at, f"n{at}"), put(at, 100 + at, "new"), remove(at, 99 + at, None))
        stop.set()
        maintaining.result()
    assert all(any(what in text for text in done) for what in ("log files into", "archive: ", "expire: ")), done
    newest = {at: f"n{at}" for at in range(1, 9)}
    assert target.names() == {0: "old", 9: "old", **newest, 108: "new"}
