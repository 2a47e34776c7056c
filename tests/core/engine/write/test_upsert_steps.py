"""Steps that process one table in a batch, tested on a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.checkpoint.layout import CheckpointFolders
from headrace.engine.write import upsert_steps
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.sdk.sink import Capabilities, Sink, Table, TableMode, WriteResult
from headrace.spark.storage import Folder
from headrace.upsert.table_sources import EARLIER
from headrace.upsert.table_state import TableState
from headrace.upsert.truncates import ANY_SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

ACCEPTED = "id int, name string, _headrace_deleted boolean, _headrace_position string"
#: Changes as they arrive.
CHANGES = (
    "id int, name string, _headrace_op string, _headrace_deleted boolean, _headrace_position string, "
    "_headrace_error string, _headrace_topic string, _headrace_source string"
)
#: Rows with a column that may be unavailable.
TOAST = "id int, text string, _headrace_unchanged struct<text: boolean>, _headrace_deleted boolean, _headrace_position string"


class NullSink(Sink):
    """Sink that stores nothing. The tests define its capabilities."""

    name = "nowhere"
    api_version = 1
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True)

    def write(self, *_: Any) -> WriteResult:
        raise NotImplementedError

    def read_back(self, *_: Any, **__: Any) -> DataFrame:
        raise NotImplementedError


def make_plan(mode: TableMode = "upsert", **changed: Any) -> TablePlan:
    values: dict[str, Any] = {
        "table": Table("shop.orders", ("id",)),
        "marks": BatchMarks("checkpoint", 7),
        "modes": {NullSink(): mode},
        "columns": ("id", "name"),
        **changed,
    }
    return TablePlan(**values)


@pytest.fixture
def state(spark: SparkSession, tmp_path: Path) -> TableState:
    return TableState(CheckpointFolders(Folder(spark, str(tmp_path))), "shop.orders", retention=3600)


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_invalid_changes_are_dropped_and_positions_start_with_the_epoch(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [(1, "a", "c", False, "0A", None, "t", "t"), (None, "b", "c", False, "0B", "key-missing", "t", "t")], CHANGES
    )
    accepted = upsert_steps.accept_rows(changes, make_plan(marks=BatchMarks("checkpoint", 7, epoch=2)))
    assert accepted.columns == ["id", "name", "_headrace_source", "_headrace_deleted", "_headrace_position"]
    assert [tuple(row) for row in accepted.collect()] == [(1, "a", "t", False, "12A")]


def test_changelog_contains_operations_and_deletes(spark: SparkSession) -> None:
    changes = spark.createDataFrame([(1, "a", "d", True, "0A", None, "t", "t")], CHANGES)
    changelog = make_plan("changelog")
    rows = upsert_steps.changelog_rows(upsert_steps.accept_rows(changes, changelog), changelog)
    assert [row.asDict() for row in rows.collect()] == [
        {"id": 1, "name": "a", "__op": "d", "_headrace_deleted": False, "_headrace_position": "0A/t"}
    ]


def test_appended_rows_of_two_topics_have_distinct_positions(spark: SparkSession, state: TableState) -> None:
    changes = spark.createDataFrame(
        [(1, "a", "c", False, "0A", None, "north", "n"), (1, "b", "c", False, "0A", None, "south", "s")], CHANGES
    )
    both = make_plan(modes={NullSink(): "append", NullSink(): "changelog", NullSink(): "upsert"})
    rows = upsert_steps.accept_rows(changes, both)
    state.sources.add(["n", "s"])
    for appended in (upsert_steps.append_rows(rows, both), upsert_steps.changelog_rows(rows, both)):
        assert rows_of(appended, "name", "_headrace_position") == [("a", "0A/north"), ("b", "0A/south")]
        assert not {"_headrace_topic", "_headrace_source"} & {*appended.columns}
    # Upserts compare the changes of a key by the position of the database. A tag distinguishes sources after the first.
    upserts = upsert_steps.drop_before_truncate(rows, state)
    assert upserts.columns == ["id", "name", "_headrace_deleted", "_headrace_position"]
    at = upserts.selectExpr("name", "regexp_replace(_headrace_position, '[0-9A-F]{16}$', '#') at")
    assert rows_of(at, "name", "at") == [("a", "0A"), ("b", "0A/#")]


def test_appended_rows_list_unavailable_values(spark: SparkSession) -> None:
    accepted = f"{TOAST}, _headrace_topic string"
    rows = spark.createDataFrame([(1, None, (True,), False, "0A", "t"), (2, "b", (False,), False, "0B", "t")], accepted)
    appended = upsert_steps.append_rows(rows, make_plan("append", columns=("id", "text"), unavailable=("text",)))
    assert rows_of(appended.selectExpr("id", "to_json(_headrace_unchanged) n"), "id", "n") == [
        (1, '["text"]'),
        (2, None),
    ]


def test_whole_events_list_unavailable_values_of_each_row_image(spark: SparkSession) -> None:
    row = "struct<id: int, text: string>"
    schema = f"before {row}, after {row}, {TOAST.split(', ', 2)[2]}, _headrace_new_key struct<id: int>, "
    schema += "_headrace_moved string, _headrace_topic string"
    own = (None, None, "t")
    rows = spark.createDataFrame(
        [
            ((1, "old"), (1, None), (True,), False, "0A", *own),
            ((1, None), (1, None), (True,), False, "0B", *own),
            ((1, None), (1, "new"), (False,), False, "0C", *own),
            ((1, None), None, (True,), False, "0D", *own),
        ],
        schema,
    )
    appended = upsert_steps.append_rows(rows, make_plan("append", columns=("before", "after"), has_envelopes=True))
    assert {name for name in appended.columns if name.startswith("_headrace_")} == {
        "_headrace_unchanged",
        "_headrace_deleted",
        "_headrace_position",
    }
    names = appended.selectExpr("_headrace_position p", "to_json(_headrace_unchanged) n")
    assert [n for _, n in rows_of(names, "p", "n")] == [
        '["after.text"]',
        '["before.text","after.text"]',
        None,
        '["before.text"]',
    ]


def test_changes_older_than_a_truncate_of_their_source_are_dropped(spark: SparkSession, state: TableState) -> None:
    rows = spark.createDataFrame(
        [
            (1, "old", False, "0A", "eu"),
            (1, "new", False, "0C", "eu"),
            (2, "at", False, "0B", "eu"),
            (3, "x", False, "0A", "us"),
        ],
        f"{ACCEPTED}, _headrace_source string",
    )

    def keep() -> list[tuple[Any, ...]]:
        return rows_of(upsert_steps.drop_before_truncate(rows, state), "id", "name")

    assert len(keep()) == 4
    assert state.truncate.advance({"eu": "0B"}) == {"eu": "0B"}
    assert state.truncate.advance({"eu": "0A"}) == {"eu": "0B"}
    assert keep() == [(1, "new"), (3, "x")]


def test_marker_without_a_source_concerns_all_changes_until_the_table_is_shared(
    spark: SparkSession, state: TableState, tmp_path: Path
) -> None:
    (tmp_path / "truncate_markers").mkdir()
    (tmp_path / "truncate_markers/shop.orders").write_text("0B")  # as an earlier version wrote it
    rows = spark.createDataFrame([(1, "old", False, "0A", "eu")], f"{ACCEPTED}, _headrace_source string")
    for source, kept in (("eu", 0), (EARLIER, 0), ("us", 1)):
        state.sources.add([source])
        assert upsert_steps.drop_before_truncate(rows, state).count() == kept


def test_key_change_carries_unavailable_values_to_the_new_key(spark: SparkSession, state: TableState) -> None:
    changes = spark.createDataFrame(
        [
            (1, "large", (False,), None, False, "0A", "0A"),
            (1, None, (False,), (2,), True, "0B", "0B"),
            (2, None, (True,), None, False, "0C", "0C"),
        ],
        "id int, text string, _headrace_unchanged struct<text: boolean>, _headrace_new_key struct<id: int>, "
        "_headrace_deleted boolean, _headrace_position string, _headrace_moved string",
    )
    carries = make_plan(columns=("id", "text"), unavailable=("text",), has_key_changes=True)
    for _ in range(2):  # a repeated batch finds the values that it stored
        with upsert_steps.carry_values_to_new_keys(changes, carries, state, lambda: None) as carried:
            assert "_headrace_new_key" not in carried.columns
            latest = upsert_steps.deduplicate(carried, carries)
            assert rows_of(latest, "id", "text", "_headrace_deleted") == [(1, None, True), (2, "large", False)]


def test_rows_are_unchanged_without_key_changes(spark: SparkSession, state: TableState) -> None:
    rows = spark.createDataFrame([(1, "a", False, "0A")], ACCEPTED)
    with upsert_steps.carry_values_to_new_keys(rows, make_plan(), state, lambda: None) as carried:
        assert carried is rows


def test_latest_change_of_each_key_remains(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, "a", False, "0A"), (1, "b", True, "0C"), (1, "c", False, "0B"), (2, "d", False, "0A")], ACCEPTED
    )
    assert rows_of(upsert_steps.deduplicate(rows, make_plan()), "id", "name", "_headrace_deleted") == [
        (1, "b", True),
        (2, "d", False),
    ]


def test_unavailable_value_is_filled_from_the_previous_change(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            (1, "first", (False,), False, "0A"),
            (1, None, (True,), False, "0C"),
            (1, "second", (False,), False, "0B"),
            (2, None, (True,), False, "0A"),
        ],
        TOAST,
    )
    latest = upsert_steps.deduplicate(rows, make_plan(columns=("id", "text"), unavailable=("text",)))
    assert "_headrace_unchanged" not in latest.columns
    assert rows_of(latest.selectExpr("id", "text", "_headrace_origin['text'] at"), "id", "text", "at") == [
        (1, "second", "0B"),
        (2, None, ""),
    ]


def test_tombstone_remains_if_its_key_has_no_other_change(spark: SparkSession, state: TableState) -> None:
    state.truncate.advance({ANY_SOURCE: "0A"})
    state.sources.add(["eu"])
    rows = spark.createDataFrame(
        [
            (1, None, True, "!12"),
            (1, "a", False, "0B"),
            (2, None, True, "!13"),
            (2, None, True, "!211"),
            (3, "c", False, "0B"),
        ],
        ACCEPTED,
    ).selectExpr("*", "if(id = 2, null, 'eu') _headrace_source")
    has_tombstones = make_plan(position_parts="")
    latest = upsert_steps.deduplicate(upsert_steps.drop_before_truncate(rows, state), has_tombstones)
    assert rows_of(upsert_steps.exclude_tombstones(latest, has_tombstones), "id", "name") == [(1, "a"), (3, "c")]
    assert rows_of(upsert_steps.select_tombstones(latest), "id", "_headrace_position") == [(2, "!211")]


def test_tombstone_does_not_fill_unavailable_values(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, (False,), True, "!12"), (1, None, (True,), False, "0C")], TOAST)
    latest = upsert_steps.deduplicate(rows, make_plan(columns=("id", "text"), unavailable=("text",), position_parts=""))
    assert rows_of(latest.selectExpr("id", "_headrace_origin['text'] at"), "id", "at") == [(1, "")]


def test_tombstone_has_no_epoch(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [(1, "a", None, True, "!12", None, "t", "t"), (2, "b", None, False, "0B", None, "t", "t")],
        CHANGES,
    )
    accepted = upsert_steps.accept_rows(
        changes, make_plan(marks=BatchMarks("checkpoint", 7, epoch=2), position_parts="")
    )
    assert rows_of(accepted, "id", "_headrace_position") == [(1, "!12"), (2, "12B")]


def test_change_older_than_an_applied_delete_is_late(spark: SparkSession, state: TableState) -> None:
    remembers = make_plan(remembers_deletes=True)
    deletes = spark.createDataFrame([(1, "a", True, "0C"), (2, "b", False, "0C")], ACCEPTED)
    state.deleted_keys.remember(deletes, ["id"], 6)
    rows = spark.createDataFrame([(1, "late", False, "0B"), (2, "b", False, "0B"), (3, "c", False, "0A")], ACCEPTED)
    with upsert_steps.drop_late_after_delete(rows, remembers, state) as cached:
        assert rows_of(cached, "id") == [(2,), (3,)]
    with upsert_steps.drop_late_after_delete(rows, make_plan(), state) as cached:
        assert cached is rows


def test_rows_that_are_read_twice_are_cached(spark: SparkSession) -> None:
    rows = spark.range(3)
    with upsert_steps.cache_rows({"upsert": rows}):
        assert rows.is_cached
    assert not rows.is_cached
