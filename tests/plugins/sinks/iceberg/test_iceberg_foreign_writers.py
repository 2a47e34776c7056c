"""Iceberg tables that another writer changes, or whose clock goes back: rows stay correct, or an error reports it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.iceberg import java_table, load_table_handle, name_of
from tests.support.tiers import nightly_after

from headrace.errors import RetriableError
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing._internal.meantime import in_the_meantime
from headrace.testing.tables import Target, put, remove
from headrace_sinks.active_session import active
from headrace_sinks.iceberg import IcebergSink

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
ALL = MaintenancePolicy(history_seconds=3600, files=2)


@pytest.fixture(params=[(), pytest.param(("spark",), marks=pytest.mark.nightly)], ids=["merged", "by key"])
def target(request: pytest.FixtureRequest, tmp_path: Path, sessions: Sessions) -> Target:
    target = Target(IcebergSink({"warehouse": str(tmp_path), "readers": list(request.param)}), sessions.of("one"))
    target.write(PEOPLE, *[put(0, number, "old") for number in range(4)])
    target.write(PEOPLE, put(1, 1, "new"), remove(1, 2, ""))
    return target


def maintain(target: Target) -> dict[str, str]:
    return {step.name: step.run() for step in target.sink.plan_maintenance(target.session, target.table, ALL)}


def rows(target: Target) -> dict[int, str]:
    found = target.sink.read_back(target.session, target.table).collect()
    assert len({row.id for row in found}) == len(found)
    return {row.id: row.name for row in found}


def set_properties(**properties: str) -> Callable[[Target], None]:
    def change(target: Target) -> None:
        update = java_table(target).updateProperties()
        for key, value in properties.items():
            update.set(key.replace("__", "-").replace("_", "."), value)
        update.commit()

    return change


def move_data(target: Target) -> None:
    java = java_table(target)
    java.updateProperties().set("write.data.path", f"{java.location()}/elsewhere").commit()


def add_partition(target: Target) -> None:
    java_table(target).updateSpec().addField("name").commit()


def roll_back(target: Target) -> None:
    java = java_table(target)
    java.manageSnapshots().rollbackTo(java.currentSnapshot().snapshotId()).commit()


def delete_nothing(target: Target) -> None:
    target.session.sql(f"DELETE FROM {name_of(target)} WHERE id = 77")


def rewrite_all(target: Target) -> None:
    target.session.sql(f"INSERT OVERWRITE {name_of(target)} SELECT * FROM {name_of(target)}")


@pytest.mark.parametrize(
    "change",
    nightly_after(
        1,
        [
            set_properties(format__version="3"),
            set_properties(write_format_default="orc"),
            set_properties(write_delete_granularity="partition"),
            set_properties(write_merge_mode="copy-on-write", write_delete_mode="copy-on-write"),
            move_data,
            set_properties(write_parquet__compression__codec="gzip"),
            set_properties(commit_retry_num__retries="0"),
            add_partition,
            roll_back,
            delete_nothing,
            rewrite_all,
        ],
    ),
)
def test_rows_stay_correct_after_changes_by_another_writer(target: Target, change: Callable[[Target], None]) -> None:
    change(target)
    assert rows(target) == {0: "old", 1: "new", 3: "old"}
    target.write(PEOPLE, put(2, 0, "second"), put(0, 1, "late"), remove(2, 3, ""))
    target.write(PEOPLE, put(3, 2, "back"), put(3, 0, "third"))
    expected = {0: "third", 1: "new", 2: "back"}
    assert rows(target) == expected
    maintain(target)
    assert rows(target) == expected
    target.write(PEOPLE, put(4, 2, "fourth"), put(1, 0, "late"), remove(4, 1, ""))
    assert rows(target) == {0: "third", 2: "fourth"}
    maintain(target)
    assert rows(target) == {0: "third", 2: "fourth"}


def compact(target: Target) -> None:
    handle = load_table_handle(target)
    with active(target.session):
        handle.actions.rewriteDataFiles(handle.java).option("rewrite-all", "true").execute()


def expire(target: Target) -> None:
    java = java_table(target)
    java.newAppend().commit()
    java.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()


def undo(target: Target) -> None:
    java = java_table(target)
    java.manageSnapshots().rollbackTo(java.currentSnapshot().parentId()).commit()


@pytest.mark.parametrize(
    ("maintain_table", "stored"),
    nightly_after(
        1,
        [
            (expire, {0: "old", 1: "new", 3: "old"}),
            (undo, {0: "old", 1: "old", 2: "old", 3: "old"}),
            (compact, {0: "old", 1: "new", 3: "old"}),
        ],
    ),
)
def test_maintenance_by_another_program_during_a_batch(
    target: Target, maintain_table: Callable[[Target], None], stored: dict[int, str]
) -> None:
    changes = put(2, 0, "second"), remove(2, 3, ""), put(2, 9, "more")
    with in_the_meantime(lambda: maintain_table(target)) as interleave:
        error = target.refusal(lambda: target.apply(interleave(target.frame(PEOPLE, *changes))))
    if error is not None:
        assert isinstance(error, RetriableError)
        assert rows(target) == stored
        target.write(PEOPLE, *changes)
    expected = {**stored, 0: "second", 9: "more"}
    del expected[3]
    assert rows(target) == expected


@pytest.mark.nightly
def test_equality_deletes_in_format_version_3_are_not_converted(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._LARGE_BYTES", 1)  # no file is compacted
    set_properties(format__version="3")(target)
    maintain(target)
    assert rows(target) == {0: "old", 1: "new", 3: "old"}


def test_backward_clock_is_reported_and_no_row_is_lost(target: Target, tmp_path: Path) -> None:
    metadata = tmp_path / target.name.replace(".", "/") / "metadata"
    newest = max(metadata.glob("v*.metadata.json"), key=lambda file: int(file.name.split(".")[0][1:]))
    newest.with_name(f".{newest.name}.crc").unlink()
    original, hour = newest.read_text(), 3_600_000
    table = json.loads(original)
    table["last-updated-ms"] += hour
    for entry in (table["snapshots"][-1], table["snapshot-log"][-1]):
        entry["timestamp-ms"] += hour
    newest.write_text(json.dumps(table))
    refusal = target.refusal(lambda: target.write(PEOPLE, put(2, 0, "second")))
    assert isinstance(refusal, RetriableError)
    assert "the clock of this machine is behind the table's last commit" in str(refusal)
    assert rows(target) == {0: "old", 1: "new", 3: "old"}
    assert "expire" not in [step.name for step in target.sink.plan_maintenance(target.session, target.table, ALL)]
    newest.write_text(original)
    time.sleep(0.01)
    target.write(PEOPLE, put(2, 0, "second"))
    assert rows(target) == {0: "second", 1: "new", 3: "old"}


@pytest.mark.parametrize("target", [()], ids=["merged"], indirect=True)
def test_renamed_key_column_is_an_error(target: Target) -> None:
    before = rows(target)
    java_table(target).updateSchema().renameColumn("id", "number").commit()
    error = target.refusal(lambda: target.write(PEOPLE, put(5, 1, "newer")))
    assert "the table has no column 'id', which is part of the key of its rows" in str(error)
    java_table(target).updateSchema().renameColumn("number", "id").commit()
    assert rows(target) == before
