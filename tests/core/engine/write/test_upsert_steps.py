"""Each step of a table's part of a batch, on a handful of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.checkpoint.layout import CheckpointFolders
from headrace.engine.write import upsert_steps
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.sdk.sink import Capabilities, Sink, Table, TableMode, WriteResult
from headrace.spark.storage import Folder
from headrace.upsert.table_state import TableState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

ACCEPTED = "id int, name string, _headrace_deleted boolean, _headrace_position string"
#: Rows with a column that may be unavailable.
TOAST = "id int, text string, _headrace_unchanged struct<text: boolean>, _headrace_deleted boolean, _headrace_position string"


class Nowhere(Sink):
    """Keeps nothing; what it claims is what a test gives it."""

    name = "nowhere"
    api_version = 1
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True)

    def write(self, *_: Any) -> WriteResult:
        raise NotImplementedError

    def read_back(self, *_: Any, **__: Any) -> DataFrame:
        raise NotImplementedError


def job(mode: TableMode = "upsert", **changed: Any) -> TablePlan:
    values: dict[str, Any] = {
        "table": Table("shop.orders", ("id",)),
        "marks": BatchMarks("checkpoint", 7),
        "modes": {Nowhere(): mode},
        "columns": ("id", "name"),
        **changed,
    }
    return TablePlan(**values)


@pytest.fixture
def state(spark: SparkSession, tmp_path: Path) -> TableState:
    return TableState(CheckpointFolders(Folder(spark, str(tmp_path))), "shop.orders", retention=3600)


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_what_is_wrong_is_not_accepted_and_the_epoch_leads_every_position(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [(1, "a", "c", False, "0A", None, "t"), (None, "b", "c", False, "0B", "key-missing", "t")],
        "id int, name string, _headrace_op string, _headrace_deleted boolean, _headrace_position string, "
        "_headrace_error string, _headrace_topic string",
    )
    accepted = upsert_steps.accept_rows(changes, job(marks=BatchMarks("checkpoint", 7, epoch=2)))
    assert accepted.columns == ["id", "name", "_headrace_deleted", "_headrace_position"]
    assert [tuple(row) for row in accepted.collect()] == [(1, "a", False, "12A")]


def test_a_changelog_says_what_each_change_did_and_keeps_deletes(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [(1, "a", "d", True, "0A", None, "t")],
        "id int, name string, _headrace_op string, _headrace_deleted boolean, _headrace_position string, "
        "_headrace_error string, _headrace_topic string",
    )
    changelog = job("changelog")
    rows = upsert_steps.changelog_rows(upsert_steps.accept_rows(changes, changelog), changelog)
    assert [row.asDict() for row in rows.collect()] == [
        {"id": 1, "name": "a", "__op": "d", "_headrace_deleted": False, "_headrace_position": "0A/t"}
    ]


def test_two_topics_have_no_position_in_common_where_rows_are_appended(spark: SparkSession, state: TableState) -> None:
    changes = spark.createDataFrame(
        [(1, "a", "c", False, "0A", None, "north"), (1, "b", "c", False, "0A", None, "south")],
        "id int, name string, _headrace_op string, _headrace_deleted boolean, _headrace_position string, "
        "_headrace_error string, _headrace_topic string",
    )
    both = job(modes={Nowhere(): "append", Nowhere(): "changelog", Nowhere(): "upsert"})
    rows = upsert_steps.accept_rows(changes, both)
    for appended in (upsert_steps.append_rows(rows, both), upsert_steps.changelog_rows(rows, both)):
        assert rows_of(appended, "name", "_headrace_position") == [("a", "0A/north"), ("b", "0A/south")]
        assert "_headrace_topic" not in appended.columns
    upserts = upsert_steps.drop_before_truncate(rows, state)  # a key's changes are compared by what orders them alone
    assert upserts.columns == ["id", "name", "_headrace_deleted", "_headrace_position"]
    assert rows_of(upserts, "name", "_headrace_position") == [("a", "0A"), ("b", "0A")]


def test_appended_rows_name_the_values_that_are_unavailable(spark: SparkSession) -> None:
    accepted = f"{TOAST}, _headrace_topic string"
    rows = spark.createDataFrame([(1, None, (True,), False, "0A", "t"), (2, "b", (False,), False, "0B", "t")], accepted)
    appended = upsert_steps.append_rows(rows, job("append", columns=("id", "text"), unavailable=("text",)))
    assert rows_of(appended.selectExpr("id", "to_json(_headrace_unchanged) n"), "id", "n") == [
        (1, '["text"]'),
        (2, None),
    ]


def test_nothing_older_than_a_truncate_is_left(spark: SparkSession, state: TableState) -> None:
    rows = spark.createDataFrame([(1, "old", False, "0A"), (1, "new", False, "0C"), (2, "at", False, "0B")], ACCEPTED)
    assert len(upsert_steps.drop_before_truncate(rows, state).collect()) == 3
    state.truncate.advance("0B")
    state.truncate.advance("0A")
    assert rows_of(upsert_steps.drop_before_truncate(rows, state), "id", "name") == [(1, "new")]


def test_a_key_change_takes_unavailable_values_along(spark: SparkSession, state: TableState) -> None:
    changes = spark.createDataFrame(
        [
            (1, "large", (False,), None, False, "0A", "0A"),
            (1, None, (False,), (2,), True, "0B", "0B"),
            (2, None, (True,), None, False, "0C", "0C"),
        ],
        "id int, text string, _headrace_unchanged struct<text: boolean>, _headrace_new_key struct<id: int>, "
        "_headrace_deleted boolean, _headrace_position string, _headrace_moved string",
    )
    carries = job(columns=("id", "text"), unavailable=("text",), has_key_changes=True)
    for _ in range(2):  # a batch that is repeated finds what it wrote down
        with upsert_steps.carry_values_to_new_keys(changes, carries, state, lambda: None) as carried:
            assert "_headrace_new_key" not in carried.columns
            latest = upsert_steps.deduplicate(carried, carries)
            assert rows_of(latest, "id", "text", "_headrace_deleted") == [(1, None, True), (2, "large", False)]


def test_without_key_changes_the_rows_stay_as_they_are(spark: SparkSession, state: TableState) -> None:
    rows = spark.createDataFrame([(1, "a", False, "0A")], ACCEPTED)
    with upsert_steps.carry_values_to_new_keys(rows, job(), state, lambda: None) as carried:
        assert carried is rows


def test_the_latest_change_of_each_key_is_left(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, "a", False, "0A"), (1, "b", True, "0C"), (1, "c", False, "0B"), (2, "d", False, "0A")], ACCEPTED
    )
    assert rows_of(upsert_steps.deduplicate(rows, job()), "id", "name", "_headrace_deleted") == [
        (1, "b", True),
        (2, "d", False),
    ]


def test_an_unavailable_value_is_that_of_the_next_older_change(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            (1, "first", (False,), False, "0A"),
            (1, None, (True,), False, "0C"),
            (1, "second", (False,), False, "0B"),
            (2, None, (True,), False, "0A"),
        ],
        TOAST,
    )
    latest = upsert_steps.deduplicate(rows, job(columns=("id", "text"), unavailable=("text",)))
    assert "_headrace_unchanged" not in latest.columns
    assert rows_of(latest.selectExpr("id", "text", "_headrace_origin['text'] at"), "id", "text", "at") == [
        (1, "second", "0B"),
        (2, None, ""),
    ]


def test_a_tombstone_is_left_of_a_key_of_which_there_is_nothing_else(spark: SparkSession, state: TableState) -> None:
    state.truncate.advance("0A")
    rows = spark.createDataFrame(
        [
            (1, None, True, "!12"),
            (1, "a", False, "0B"),
            (2, None, True, "!13"),
            (2, None, True, "!211"),
            (3, "c", False, "0B"),
        ],
        ACCEPTED,
    )
    has_tombstones = job(position_parts="")
    latest = upsert_steps.deduplicate(upsert_steps.drop_before_truncate(rows, state), has_tombstones)
    assert rows_of(upsert_steps.exclude_tombstones(latest, has_tombstones), "id", "name") == [(1, "a"), (3, "c")]
    assert rows_of(upsert_steps.select_tombstones(latest), "id", "_headrace_position") == [(2, "!211")]


def test_a_tombstone_does_not_say_what_a_value_was_that_a_change_leaves_out(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, (False,), True, "!12"), (1, None, (True,), False, "0C")], TOAST)
    latest = upsert_steps.deduplicate(rows, job(columns=("id", "text"), unavailable=("text",), position_parts=""))
    assert rows_of(latest.selectExpr("id", "_headrace_origin['text'] at"), "id", "at") == [(1, "")]


def test_a_tombstone_is_of_no_epoch(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [(1, "a", True, "!12", None), (2, "b", False, "0B", None)],
        "id int, name string, _headrace_deleted boolean, _headrace_position string, _headrace_error string",
    )
    accepted = upsert_steps.accept_rows(changes, job(marks=BatchMarks("checkpoint", 7, epoch=2), position_parts=""))
    assert rows_of(accepted, "id", "_headrace_position") == [(1, "!12"), (2, "12B")]


def test_a_change_that_is_older_than_an_applied_delete_is_late(spark: SparkSession, state: TableState) -> None:
    remembers = job(remembers_deletes=True)
    deletes = spark.createDataFrame([(1, "a", True, "0C"), (2, "b", False, "0C")], ACCEPTED)
    state.deleted_keys.remember(deletes, ["id"], 6)
    rows = spark.createDataFrame([(1, "late", False, "0B"), (2, "b", False, "0B"), (3, "c", False, "0A")], ACCEPTED)
    with upsert_steps.drop_late_after_delete(rows, remembers, state) as kept:
        assert rows_of(kept, "id") == [(2,), (3,)]
    with upsert_steps.drop_late_after_delete(rows, job(), state) as kept:
        assert kept is rows


def test_rows_that_are_read_twice_are_kept_meanwhile(spark: SparkSession) -> None:
    rows = spark.range(3)
    with upsert_steps.cache_rows({"upsert": rows}):
        assert rows.is_cached
    assert not rows.is_cached
