"""Key changes with unavailable values.

The row with the new key keeps the values of the old row, regardless of the order of the changes and their division into
batches.
"""

from __future__ import annotations

import uuid
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from tests.support.memory_sink import MemorySink
from tests.support.tiers import nightly_after

from headrace.engine.write.table_plan import BatchMarks
from headrace.engine.write.upsert_steps import carry_values_to_new_keys
from headrace.sdk.sink import Table
from headrace.spark.sessions import Sessions
from headrace.spark.storage import Folder
from headrace.testing._internal.stream import Change, Database, Stream
from headrace.upsert.key_changes import KeyChanges
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TABLE = "kit.people"


def move_row(*, keys: tuple[int, ...]) -> Database:
    """Return a database with a row whose key changes; the events omit its text."""
    database = Database()
    database.insert(TABLE, {"id": keys[0], "name": "a", "text": "old"})
    database.update(TABLE, {"id": keys[0], "name": "b", "text": "large"})
    for old, new in pairwise(keys):
        database.rekey(TABLE, old, new, unavailable=["text"])
    return database


def move_row_to_used_key(*, keys: tuple[int, ...]) -> Database:
    """Return a database with a row whose key changes; the events omit its text. Another row had the second key before."""
    database = Database()
    database.insert(TABLE, {"id": keys[1], "name": "before", "text": "before"})
    database.delete(TABLE, keys[1])
    database.insert(TABLE, {"id": keys[0], "name": "a", "text": "large"})
    for old, new in pairwise(keys):
        database.rekey(TABLE, old, new, unavailable=["text"])
    return database


def stream(spark: SparkSession, folder: Path) -> Stream:
    return Stream(MemorySink(store=uuid.uuid4().hex), spark, folder)


def test_key_changes_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    database, target = move_row(keys=(1, 2)), stream(spark, tmp_path)
    target.apply(*database.log)
    assert target.rows(TABLE) == [{"id": 2, "name": "b", "text": "large"}]
    assert [(t.rows_in, t.applied, t.superseded) for t in target.progress[-1].tables] == [(4, 2, 2)]


@pytest.mark.nightly
@pytest.mark.parametrize("new_first", [True, False])
def test_key_changes_in_separate_batches(spark: SparkSession, tmp_path: Path, *, new_first: bool) -> None:
    database, target = move_row(keys=(1, 2)), stream(spark, tmp_path)
    insert, update, delete, reinsert = database.log
    for batch in [insert, reinsert, update, delete] if new_first else [insert, update, delete, reinsert]:
        target.apply(batch)
        target.restart()
        target.apply_again()
    assert target.rows(TABLE) == database.rows(TABLE)


def test_values_are_taken_from_the_stored_row(spark: SparkSession, tmp_path: Path) -> None:
    database = move_row(keys=(1, 2))
    target = Stream(IcebergSink(warehouse=str(tmp_path / "lake")), spark, tmp_path)
    insert, update, delete, reinsert = database.log
    target.apply(insert, update)
    target.apply(delete, reinsert)
    target.restart()
    target.apply_again()
    assert target.rows(TABLE) == database.rows(TABLE)
    assert not [
        name
        for name in target.sink.read_back(spark, Table(TABLE, ("id",))).columns
        if "gift" in name or "moved" in name
    ]


@pytest.mark.nightly
def test_values_are_carried_if_the_cluster_writes_no_success_files(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    database, target = move_row(keys=(1, 2)), stream(session, tmp_path)
    insert, update, delete, reinsert = database.log
    target.apply(insert, update, reinsert)
    target.apply(delete)
    assert target.rows(TABLE) == database.rows(TABLE)


def test_key_change_back_to_a_former_key(spark: SparkSession, tmp_path: Path) -> None:
    database, target = move_row(keys=(1, 2, 1)), stream(spark, tmp_path)
    database.insert(TABLE, {"id": 2, "name": "other", "text": "other"})
    target.apply(*database.log)
    assert target.rows(TABLE) == database.rows(TABLE)


@pytest.mark.nightly
def test_value_of_a_change_overrides_the_carried_value(spark: SparkSession, tmp_path: Path) -> None:
    database, target = move_row(keys=(1, 2)), stream(spark, tmp_path)
    database.update(TABLE, {"id": 2, "name": "c", "text": "newest"})
    database.update(TABLE, {"id": 2, "name": "d"}, unavailable=["text"])
    *before, delete, reinsert, update, left_out = database.log
    target.apply(*before, reinsert)
    target.apply(update, left_out)
    target.apply(delete)
    assert target.rows(TABLE) == [{"id": 2, "name": "d", "text": "newest"}]


@pytest.mark.nightly
@pytest.mark.parametrize("late", [0, 1])
def test_carried_value_arrives_with_older_changes_of_its_key(spark: SparkSession, tmp_path: Path, *, late: int) -> None:
    """A change of the key's earlier, deleted row is repeated in the same batch as the carried value."""
    database, target = move_row_to_used_key(keys=(1, 2)), stream(spark, tmp_path)
    *removed, insert, delete, moved = database.log
    target.apply(*removed)
    target.apply(moved)
    target.apply(removed[late], insert, delete)
    assert target.rows(TABLE) == database.rows(TABLE) == [{"id": 2, "name": "a", "text": "large"}]


def test_carried_value_arrives_before_its_row_and_with_the_previous_row(spark: SparkSession, tmp_path: Path) -> None:
    database, target = Database(), stream(spark, tmp_path)
    database.insert(TABLE, {"id": 2, "name": "before", "text": "before"})
    database.insert(TABLE, {"id": 1, "name": "a", "text": "large"})
    database.delete(TABLE, 2)
    database.rekey(TABLE, 1, 2, unavailable=["text"])
    before, insert, removed, delete, moved = database.log
    target.apply(before, insert, delete)
    assert target.rows(TABLE) == [{"id": 2, "name": "before", "text": "before"}]
    target.apply(removed)
    assert target.rows(TABLE) == []
    target.apply(moved)
    assert target.rows(TABLE) == database.rows(TABLE) == [{"id": 2, "name": "a", "text": "large"}]


@pytest.mark.nightly
@pytest.mark.parametrize("repeated", [False, True])
def test_value_carried_too_early_is_carried_again(spark: SparkSession, tmp_path: Path, *, repeated: bool) -> None:
    """A row's key changes twice, and the new row is stored before its carried value arrives.

    With ``repeated``, a second batch repeats the insert of an older row.
    """
    database, target = move_row_to_used_key(keys=(1, 2, 3)), stream(spark, tmp_path)
    before, removed, insert, first, second, leaves, third = database.log
    for batch in [[before, removed], [before, second]] if repeated else [[before, removed, second]]:
        target.apply(*batch)
    for change in (leaves, third):
        target.apply(change)
    target.apply(insert, first)
    assert target.rows(TABLE) == database.rows(TABLE) == [{"id": 3, "name": "a", "text": "large"}]


@pytest.mark.nightly
def test_later_value_of_the_stored_row_overrides_a_carried_value(spark: SparkSession, tmp_path: Path) -> None:
    database, target = move_row(keys=(1, 2)), stream(spark, tmp_path)
    database.update(TABLE, {"id": 2, "name": "c", "text": "newest"})
    database.rekey(TABLE, 2, 3, unavailable=["text"])
    insert, update, *moved, later, delete, reinsert = database.log
    target.apply(insert, update)
    for batch in (moved, [later], [delete, reinsert]):
        target.apply(*batch)
        target.restart()
        target.apply_again()
    assert target.rows(TABLE) == [{"id": 3, "name": "c", "text": "newest"}]


@pytest.mark.nightly
def test_waiting_value_is_carried_along_with_a_row_that_moves_twice(spark: SparkSession, tmp_path: Path) -> None:
    database, target = move_row(keys=(1, 2, 3)), stream(spark, tmp_path)
    insert, update, delete, late, delete_2, third = database.log
    target.apply(insert, update, delete)
    database.insert(TABLE, {"id": 5, "name": "e", "text": "other"})
    database.rekey(TABLE, 5, 6, unavailable=["text"])
    database.rekey(TABLE, 6, 7, unavailable=["text"])
    target.apply(delete_2, third, *database.log[6:])
    target.apply(late)
    assert target.rows(TABLE) == database.rows(TABLE)


@pytest.mark.nightly
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_random_order_of_key_changes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The changes of each key arrive in order, as in a partition; the order of the keys is random."""
    database = move_row(keys=(1, 2, 3))
    database.update(TABLE, {"id": 3, "name": "c"}, unavailable=["text"])
    target = stream(spark, tmp_path_factory.mktemp("moved"))
    left, batch = {key: [change for change in database.log if change.key == key] for key in (1, 2, 3)}, list[Change]()
    while any(left.values()):
        batch.append(left[data.draw(st.sampled_from([key for key in left if left[key]]))].pop(0))
        if data.draw(st.booleans()):
            target.apply(*batch)
            batch = []
    target.apply(*batch)
    assert target.rows(TABLE) == database.rows(TABLE)


def test_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """The names include those of columns in the DataFrames of carried values."""
    rows = spark.sql(
        """
        SELECT key, old, position, _headrace_deleted, _headrace_position,
               named_struct('position', is_left_out) AS _headrace_unchanged,
               IF(new IS NULL, NULL, named_struct('key', new)) AS _headrace_new_key, '0B' AS _headrace_moved
        FROM VALUES (1, 'a', 'large', false, '0A', false, NULL), (1, NULL, NULL, true, '0B', false, 2),
                    (2, 'b', NULL, false, '0C', true, NULL)
             AS t(key, old, position, _headrace_deleted, _headrace_position, is_left_out, new)
        """
    )
    with KeyChanges(Folder(spark, str(tmp_path)), 3600).carry_values(rows, ("key",), 0, lambda: None) as carried:
        found = carried.where("_headrace_partial").select("key", "position").collect()
    assert [tuple(row) for row in found] == [(2, "large")]


@pytest.mark.parametrize(
    ("position", "origin", "value"),
    [
        ("''", "CAST(NULL AS MAP<STRING, STRING>)", "large"),
        ("CAST(NULL AS STRING)", "CAST(NULL AS MAP<STRING, STRING>)", "large"),
        ("'0A'", "map('large', '')", "large"),
        ("'0A'", "map('large', '')", None),
    ],
    ids=["other writer", "other writer without positions", "taken from another writer", "unknown"],
)
def test_stored_value_without_a_position(
    spark: SparkSession, tmp_path: Path, position: str, origin: str, value: str | None
) -> None:
    rows = spark.sql(
        """
        SELECT 1 AS id, CAST(NULL AS STRING) AS large, true AS _headrace_deleted, '0B' AS _headrace_position,
               named_struct('large', false) AS _headrace_unchanged, named_struct('id', 2) AS _headrace_new_key,
               '0B' AS _headrace_moved
        """
    )
    large = f"'{value}'" if value else "CAST(NULL AS STRING)"
    stored = spark.sql(
        f"SELECT 1 AS id, {large} AS large, {position} AS _headrace_position, {origin} AS _headrace_origin"
    )
    with KeyChanges(Folder(spark, str(tmp_path)), 3600).carry_values(rows, ("id",), 0, lambda: stored) as carried:
        found = carried.where("_headrace_partial").selectExpr("id", "large", "_headrace_unchanged.large").collect()
    assert [tuple(row) for row in found] == [(2, value, value is None)]


@pytest.mark.nightly
def test_key_columns_may_have_any_type(spark: SparkSession, tmp_path: Path) -> None:
    """The new row, without its large value, comes in a later batch than the key change."""
    spark = Sessions(spark).of("one")
    old = "X'0041', TIMESTAMP '1582-10-04 23:59:59.999999Z', DATE '0001-01-01', 1.100"
    new = "X'FF41', TIMESTAMP '2026-10-25 00:30:00.000001Z', DATE '1582-10-10', 7.000"

    def rows(*lines: str) -> DataFrame:
        return spark.sql(
            f"""
            SELECT bin, at, day, CAST(num AS DECIMAL(6,3)) AS num, CAST(large AS ARRAY<DATE>) AS large, _headrace_deleted, _headrace_position,
                   named_struct('large', is_left_out) AS _headrace_unchanged,
                   IF(is_moved, named_struct('bin', X'FF41', 'at', TIMESTAMP '2026-10-25 00:30:00.000001Z',
                      'day', DATE '1582-10-10', 'num', CAST(7 AS DECIMAL(6,3))), NULL) AS _headrace_new_key,
                   '0B' AS _headrace_moved
            FROM VALUES {", ".join(f"({line})" for line in lines)}
                 AS t(bin, at, day, num, large, _headrace_deleted, _headrace_position, is_left_out, is_moved)
            """
        )

    changes, key = KeyChanges(Folder(spark, str(tmp_path)), 3600), ("bin", "at", "day", "num")
    values = "array(DATE '1500-02-28')"
    inserted, deleted = f"{old}, {values}, false, '0A', false, false", f"{old}, NULL, true, '0B', false, true"
    with changes.carry_values(rows(inserted, deleted), key, 0, lambda: None) as carried:
        carried.collect()
    with changes.carry_values(rows(f"{new}, NULL, false, '0C', true, false"), key, 1, lambda: None) as carried:
        found = carried.where("_headrace_partial").selectExpr(*key, "large").collect()
    assert found == rows(f"{new}, {values}, false, '', false, false").select(*key, "large").collect()


@pytest.mark.parametrize(
    "second",
    nightly_after(1, [BatchMarks("c/replay/1764", 5, write=1764), BatchMarks("c", 5, digest="b2")]),
    ids=["replay", "topic"],
)
def test_second_write_of_a_batch_carries_its_own_values(
    spark: SparkSession, tmp_path: Path, second: BatchMarks
) -> None:
    """A replay has the number of its batch, as has a topic that could not be read when the batch was applied."""

    def moved(old: int, new: int) -> DataFrame:
        return spark.sql(
            f"""
            SELECT id, large, deleted AS _headrace_deleted, at AS _headrace_position,
                   named_struct('large', false) AS _headrace_unchanged,
                   IF(deleted, named_struct('id', {new}), NULL) AS _headrace_new_key, '0B' AS _headrace_moved
            FROM VALUES ({old}, 'large {old}', false, '0A'), ({old}, NULL, true, '0B') AS t(id, large, deleted, at)
            """
        )

    state: Any = SimpleNamespace(key_changes=KeyChanges(Folder(spark, str(tmp_path)), 3600))
    for marks, old in ((BatchMarks("c", 5, digest="a1"), 1), (second, 2)):
        plan: Any = SimpleNamespace(has_key_changes=True, table=Table(TABLE, ("id",)), marks=marks)
        with carry_values_to_new_keys(moved(old, old + 10), plan, state, lambda: None) as carried:
            found = carried.where("_headrace_partial").select("id", "large").collect()
        assert [tuple(row) for row in found] == [(old + 10, f"large {old}")]
