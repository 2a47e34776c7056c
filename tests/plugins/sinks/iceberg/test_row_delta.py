"""Iceberg rows that are replaced without MERGE: by key, where readers support equality deletes, or by position."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.iceberg import java_table, load_table_handle, name_of
from tests.support.tiers import nightly_after
from tests.support.waiting import until

from headrace.errors import RetriableError
from headrace.sdk.changes import POSITION
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.sdk.sink import Batch
from headrace.spark.observation import Observation
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.active_session import active
from headrace_sinks.iceberg import IcebergSink, position_deletes
from headrace_sinks.iceberg.marked_commit import commit_files, commit_with_mark
from headrace_sinks.iceberg.row_delta import HIGHEST_POSITION, MAX_ROWS
from headrace_sinks.iceberg.staging import stage_files

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"
ALL = MaintenancePolicy(history_seconds=3600, files=2)
#: Iceberg's content codes of files.
KINDS = {0: "rows", 1: "positions", 2: "keys"}


def by_key(folder: Path, **options: Any) -> IcebergSink:
    return IcebergSink({"warehouse": str(folder), "readers": ["spark"], **options})


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> Target:
    return Target(by_key(tmp_path), sessions.of("one"))


def files(target: Target) -> Counter[str]:
    """Return the number of files of each kind in a table."""
    target.session.catalog.refreshTable(name_of(target))
    return Counter(KINDS[row.content] for row in target.session.table(f"{name_of(target)}.files").collect())


def rows(target: Target) -> dict[int, str]:
    return {row.id: row.name for row in target.sink.read_back(target.session, target.table).collect()}


def maintain(target: Target) -> dict[str, str]:
    return {step.name: step.run() for step in target.sink.plan_maintenance(target.session, target.table, ALL)}


def stage_rewrite(target: Target) -> Any:
    """Rewrite all data files like Iceberg's action, and return the update that commits the new files."""
    handle = load_table_handle(target)
    java = handle.java
    start, tasks = java.currentSnapshot(), java.newScan().planFiles().iterator()
    rewrite = java.newRewrite().validateFromSnapshot(start.snapshotId()).dataSequenceNumber(start.sequenceNumber())
    while tasks.hasNext():
        rewrite.deleteFile(tasks.next().file())
    with active(target.session):
        kept = target.sink.read_back(target.session, target.table).localCheckpoint()
        for file in stage_files(handle, kept):
            rewrite.addFile(file)
    return rewrite


@pytest.fixture
def large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as too large for compaction."""
    monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._LARGE_BYTES", 1)


def test_newer_batches_add_rows_and_keys(target: Target) -> None:
    target.write(PEOPLE, *[put(0, number, "old") for number in range(4)])
    first = files(target)["rows"]
    assert target.write(PEOPLE, put(1, 1, "new"), remove(2, 2, ""), put(3, 9, "more")).upserted == 2
    assert target.write(PEOPLE, remove(4, 9, ""), remove(4, 7, "never there")).upserted == 0
    assert rows(target) == {0: "old", 1: "new", 3: "old"}
    assert files(target) == {"rows": first + 1, "keys": 2}
    target.write(PEOPLE, put(5, 9, "back"))
    assert rows(target)[9] == "back"


@pytest.mark.one_spark
def test_possibly_late_batch_is_compared_with_stored_rows(target: Target) -> None:
    target.write(PEOPLE, put(0, 1, "first"), put(5, 2, "fifth"))
    target.write(PEOPLE, put(5, 1, "not above the highest"), put(6, 3, "sixth"))
    assert "keys" not in files(target)
    target.write(PEOPLE, remove(9, 3, ""))
    target.write(PEOPLE, put(7, 3, "after a delete that is not remembered here"), put(4, 2, "late"))
    assert rows(target) == {1: "not above the highest", 2: "fifth", 3: "after a delete that is not remembered here"}
    assert files(target)["keys"] == 1
    assert java_table(target).currentSnapshot().summary()[HIGHEST_POSITION] == f"{9:010d}"
    target.write(PEOPLE, put(10, 2, "tenth"))
    assert files(target)["keys"] == 2


@pytest.mark.parametrize("table_is_large", nightly_after(1, [False, True]))
def test_counts_need_no_extra_aggregation(
    target: Target, monkeypatch: pytest.MonkeyPatch, table_is_large: bool
) -> None:
    target.write(PEOPLE, *[put(1, number, "old") for number in range(4)])
    target.write(PEOPLE, put(2, 0, "old"))
    if table_is_large:
        monkeypatch.setattr("headrace_sinks.iceberg.row_delta._MANY_ROWS", 1)
    aggregations: list[object] = []
    monkeypatch.setattr("headrace.spark.observation._aggregate", lambda *_: aggregations.append(1))
    # A batch of only newer rows, and a batch with a late row, which requires a search for positions.
    target.write(PEOPLE, put(3, 1, "new"))
    if table_is_large:
        target.write(PEOPLE, put(4, 2, "new"), put(0, 3, "late"))
    assert not aggregations
    assert rows(target) == {0: "old", 1: "new", 2: "new" if table_is_large else "old", 3: "old"}


@pytest.mark.nightly
def test_missing_observation_is_replaced_by_an_aggregation(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.write(PEOPLE, *[put(1, number, "old") for number in range(4)])
    monkeypatch.setattr("headrace_sinks.iceberg.row_delta._MANY_ROWS", 1)
    monkeypatch.setattr(Observation, "result", lambda _: {})
    target.write(PEOPLE, put(3, 1, "new"))
    target.write(PEOPLE, put(4, 2, "new"), put(0, 3, "late"))
    assert rows(target) == {0: "old", 1: "new", 2: "new", 3: "old"}
    assert files(target)["positions"] == 1


@pytest.mark.nightly
@pytest.mark.one_spark
def test_rows_of_another_writer_are_compared(target: Target) -> None:
    target.write(PEOPLE, put(0, 1, "first"))
    target.write(PEOPLE, put(1, 1, "second"))
    columns = target.session.table(name_of(target)).columns
    values = {"id": "2", "name": "'theirs'"}
    theirs = ", ".join(values.get(column, f"'{20:010d}'") for column in columns)
    target.session.sql(f"INSERT INTO {name_of(target)} VALUES ({theirs})")
    target.write(PEOPLE, put(2, 2, "older than theirs"), put(2, 1, "third"))
    assert rows(target) == {1: "third", 2: "theirs"}
    assert files(target)["keys"] == 1


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ("id int, name string", {"partition.by": {"*": ["name"]}}),
        ("id int, name string", {"format-version": "3"}),
        ("id int, name string", {"write.format.default": "avro"}),
        ("id int, name string", {"table.type": "copy-on-write"}),
        ("id double, name string", {}),
        ("id timestamp, name string", {}),
    ],
)
def test_tables_without_support_for_equality_deletes_are_merged(
    tmp_path: Path, sessions: Sessions, schema: str, options: dict[str, Any]
) -> None:
    target = Target(by_key(tmp_path, **options), sessions.of("one"))
    key: Any = {"int": 1, "double": 1.5, "timestamp": datetime(2020, 1, 1)}[schema.split()[1].rstrip(",")]  # noqa: DTZ001
    for at in range(3):
        target.write(schema, put(at, key, f"n{at}"))
    assert list(rows(target).values()) == ["n2"]
    assert "keys" not in files(target)


@pytest.mark.nightly
def test_rows_of_wide_tables_are_found_by_key(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace_sinks.iceberg.row_delta._MANY_COLUMNS", 3)
    target = Target(IcebergSink(warehouse=str(tmp_path)), sessions.of("one"))
    target.write(PEOPLE, *[put(5, number, "old") for number in range(6)])
    assert (
        target.write(PEOPLE, put(6, 1, "new"), put(5, 2, "not newer"), remove(4, 3, ""), put(1, 9, "more")).upserted
        == 2
    )
    assert files(target)["positions"] == 1
    target.write(PEOPLE, remove(7, 1, ""), remove(7, 9, ""), remove(7, 4, ""), remove(7, 77, "never there"))
    target.write(PEOPLE, put(7, 2, "second"), put(8, 4, "back"))
    assert rows(target) == {0: "old", 2: "second", 3: "old", 4: "back", 5: "old"}
    assert files(target)["positions"] == 3
    target.write(PEOPLE, put(7, 2, "again, and not newer"))
    assert rows(target)[2] == "second"
    assert maintain(target)
    assert rows(target) == {0: "old", 2: "second", 3: "old", 4: "back", 5: "old"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_table_with_former_partitions(tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_sinks.iceberg.row_delta._MANY_COLUMNS", 3)
    target = Target(IcebergSink(warehouse=str(tmp_path)), sessions.of("one"))
    target.write(PEOPLE, put(0, 1, "first"), put(0, 2, "first"))
    target.write(PEOPLE, put(1, 1, "second"))
    java_table(target).updateSpec().addField("name").commit()
    target.write(PEOPLE, put(2, 3, "third"), put(2, 4, "third"))
    java_table(target).updateSpec().removeField("name").commit()
    target.write(PEOPLE, put(3, 1, "fourth"), put(3, 3, "fourth"), remove(3, 4, ""))
    assert rows(target) == {1: "fourth", 2: "first", 3: "fourth"}
    maintain(target)
    assert rows(target) == {1: "fourth", 2: "first", 3: "fourth"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_empty_table_created_by_another_writer(target: Target) -> None:
    target.write(PEOPLE, put(0, 1, "first"))
    empty = Target(target.sink, target.session, name=f"{target.name}_empty")
    target.session.sql(f"CREATE TABLE {name_of(empty)} (id int, name string, {POSITION} string) USING iceberg")
    java_table(empty).updateProperties().set("write.merge.mode", "merge-on-read").commit()
    assert java_table(empty).currentSnapshot() is None
    empty.write(PEOPLE, put(1, 1, "first"))
    empty.write(PEOPLE, put(2, 1, "second"))
    assert rows(empty) == {1: "second"}
    assert files(empty)["keys"] == 1


@pytest.mark.one_spark
def test_large_batches_are_merged(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ROWS > 10_000
    monkeypatch.setattr("headrace_sinks.iceberg.row_delta.MAX_ROWS", 2)
    target.write(PEOPLE, *[put(0, number, "old") for number in range(4)])
    target.write(PEOPLE, put(1, 1, "after a large one"))
    target.write(PEOPLE, *[put(2, number, "new") for number in range(3)])
    target.write(PEOPLE, put(3, 1, "after a large one again"))
    assert "keys" not in files(target)
    target.write(PEOPLE, put(4, 2, "small"))
    assert files(target)["keys"] == 1
    assert rows(target) == {0: "new", 1: "after a large one again", 2: "small", 3: "old"}


@pytest.mark.one_spark
def test_concurrent_writer_rejects_the_batch_and_leaves_no_file(
    target: Target, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write(PEOPLE, put(0, 1, "first"))
    other = Target(target.sink, sessions.of("other"), name=target.name, batch=7)
    folder = tmp_path / target.name.replace(".", "/") / "data"

    def commit_after_another(*args: Any) -> None:
        monkeypatch.setattr("headrace_sinks.iceberg.row_delta.commit_files", commit_files)
        other.write(PEOPLE, put(9, 1, "theirs"))
        before.update(folder.iterdir())
        commit_files(*args)

    before: set[Path] = set()
    monkeypatch.setattr("headrace_sinks.iceberg.row_delta.commit_files", commit_after_another)
    refusal = target.refusal(lambda: target.write(PEOPLE, put(3, 1, "older than theirs")))
    assert isinstance(refusal, RetriableError)
    assert len(before - set(folder.iterdir())) == 4  # two files with Hadoop's checksums
    target.write(PEOPLE, put(3, 1, "older than theirs"))
    assert rows(target) == {1: "theirs"}


def test_equality_deletes_become_position_deletes(target: Target, large_files: None) -> None:
    target.write(PEOPLE, *[put(0, number, "old") for number in range(20)])
    first = files(target)["rows"]
    for at in range(1, 5):
        target.write(PEOPLE, put(at, at, f"n{at}"), remove(at, 10 + at, ""), put(at, 19, f"n{at}"))
    before = rows(target)
    assert files(target) == {"rows": first + 4, "keys": 4}
    # The last file has no deleted rows.
    assert maintain(target) == {"convert-deletes": f"4 delete files into {first + 3}"}
    assert files(target) == {"rows": first + 4, "positions": first + 3}
    assert rows(target) == before
    assert len(before) == 16
    target.write(PEOPLE, put(3, 0, "late, merged"), put(9, 19, "n9"))
    target.write(PEOPLE, put(10, 19, "n10"))
    target.write(PEOPLE, put(11, 18, "n11"))
    before = rows(target)
    assert before | {0: "late, merged", 18: "n11", 19: "n10"} == before
    assert "convert-deletes" in maintain(target)
    assert rows(target) == before
    assert maintain(target) == {}


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("path", ["by place", "conversion"])
def test_delayed_file_listing_restores_no_row(
    target: Target, large_files: None, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("headrace_sinks.iceberg.row_delta._MANY_COLUMNS", 3)
    target.write(PEOPLE, *[put(0, number, "old") for number in range(6)])
    target.write(PEOPLE, put(4, 1, "first"), put(4, 2, "first"))
    target.write(PEOPLE, put(5, 1, "second"))
    before = rows(target)
    list_deletes = position_deletes._list_written_deletes
    monkeypatch.setattr(
        position_deletes, "_list_written_deletes", lambda *arguments: list(list_deletes(*arguments))[1:]
    )
    if path == "conversion":
        (step,) = target.sink.plan_maintenance(target.session, target.table, ALL)
        refusal = target.refusal(step.run)
    else:
        refusal = target.refusal(lambda: target.write(PEOPLE, put(3, 3, "third")))  # not above the highest position
    assert isinstance(refusal, RetriableError)
    assert rows(target) == before
    monkeypatch.setattr(position_deletes, "_list_written_deletes", list_deletes)
    target.write(PEOPLE, put(3, 3, "third"))
    maintain(target)
    assert rows(target) == before | {3: "third"}


@pytest.mark.one_spark
def test_batch_between_scan_and_commit_of_deletes_is_kept(
    target: Target, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write(PEOPLE, *[put(0, number, "old") for number in range(6)])
    target.write(PEOPLE, put(1, 1, "first"), put(1, 2, "first"))
    target.write(PEOPLE, put(2, 2, "second"))
    (step,) = target.sink.plan_maintenance(target.session, target.table, ALL)

    def commit_after_batches(*args: Any) -> None:
        target.write(PEOPLE, put(3, 2, "third"), remove(3, 1, ""))
        target.write(PEOPLE, put(2, 4, "late, merged"), put(2, 2, "late, and loses"))
        commit_files(*args)

    monkeypatch.setattr("headrace_sinks.iceberg.position_deletes.commit_files", commit_after_batches)
    step.run()
    assert rows(target) == {0: "old", 2: "third", 3: "old", 4: "late, merged", 5: "old"}
    assert files(target)["keys"] == 1


@pytest.mark.one_spark
def test_batch_is_accepted_after_a_concurrent_conversion_of_deletes(
    target: Target, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write(PEOPLE, *[put(0, number, "old") for number in range(5)])
    target.write(PEOPLE, put(1, 1, "first"), remove(1, 2, ""))
    (step,) = target.sink.plan_maintenance(target.session, target.table, ALL)

    def commit_after_conversion(*args: Any) -> None:
        step.run()
        commit_files(*args)

    monkeypatch.setattr("headrace_sinks.iceberg.row_delta.commit_files", commit_after_conversion)
    target.write(PEOPLE, put(2, 1, "second"), remove(2, 3, ""))
    assert rows(target) == {0: "old", 1: "second", 4: "old"}
    assert files(target)["keys"] == 1


@pytest.mark.one_spark
@pytest.mark.parametrize("first", nightly_after(1, ["rewrite", "conversion"]))
def test_rewrite_of_older_files_and_conversion_of_deletes_restore_no_row(
    target: Target, large_files: None, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Another program reads and rewrites the files before a batch deletes rows by key, and commits afterwards."""
    target.write(PEOPLE, *[put(0, number, "old") for number in range(5)])
    rewrite = stage_rewrite(target)
    target.write(PEOPLE, put(1, 1, "new"), remove(1, 2, ""))
    (step,) = target.sink.plan_maintenance(target.session, target.table, ALL)

    def commit_after_rewrite(*args: Any) -> None:
        monkeypatch.setattr(position_deletes, "commit_files", commit_files)
        rewrite.commit()
        commit_files(*args)

    if first == "rewrite":
        monkeypatch.setattr(position_deletes, "commit_files", commit_after_rewrite)
        assert isinstance(target.refusal(step.run), RetriableError)
    else:
        step.run()
        assert isinstance(target.refusal(rewrite.commit), RetriableError)
    expected = {0: "old", 1: "new", 3: "old", 4: "old"}
    assert rows(target) == expected
    maintain(target)
    assert rows(target) == expected
    assert "keys" not in files(target)


@pytest.mark.nightly
def test_compaction_succeeds_during_concurrent_batches(target: Target, sessions: Sessions) -> None:
    other = Target(target.sink, sessions.of("other"), name=target.name)
    target.write(PEOPLE, *[put(0, number, "old") for number in range(10)])
    stop = threading.Event()

    def keep_writing() -> None:
        at = 0
        while not stop.is_set():
            at += 1
            target.write(PEOPLE, put(at, at % 7, f"n{at}"))
        last.append(at)

    last: list[int] = []
    writer = threading.Thread(target=keep_writing)
    writer.start()
    compactions = 0
    while compactions < 8 and writer.is_alive():
        compactions += maintain(other).keys() >= {"compact"}
    stop.set()
    writer.join()
    assert compactions == 8
    newest = {at % 7: f"n{at}" for at in range(max(1, last[0] - 6), last[0] + 1)}
    assert rows(target) == {**dict.fromkeys(range(10), "old"), **newest}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_files_are_compacted_during_batches(
    target: Target, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(3):
        target.write(PEOPLE, put(at, at, f"n{at}"), put(at, 7, f"n{at}"))
    (step, *_) = target.sink.plan_maintenance(target.session, target.table, ALL)
    assert (step.name, step.exclusive) == ("compact", False)
    rewrite = stage_rewrite(target)
    target.write(PEOPLE, put(9, 7, "newer"), remove(9, 0, ""))
    rewrite.commit()
    assert rows(target) == {1: "n1", 2: "n2", 7: "newer"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_committing_threads_leave_no_java_threads(target: Target) -> None:
    session, jvm = target.session, cast("Any", target.session)._jvm

    def count_threads() -> int:
        return len(jvm.java.lang.Thread.getAllStackTraces())

    def commit() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(
                commit_with_mark, session, Batch("pipeline", 1, "append"), jvm.java.lang.System.nanoTime
            ).result()

    commit()
    before = count_threads()
    for _ in range(20):
        commit()
    until(lambda: count_threads() < before + 10, "the end of the threads")
