"""One row per element: on static frames, for random histories, and in a pipeline."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st
from tests.plugins.transforms.test_row_transforms import frame_of
from tests.plugins.transforms.test_transform_pipelines import write_events
from tests.support.pages import find_block
from tests.support.pipelines import pipeline, rows as table_rows

from headrace import Pipeline
from headrace.errors import ConfigError, DataError, HeadraceError
from headrace.sdk.changes import DELETED, DETAIL, ERROR, KEY, OP, POSITION, UNAVAILABLE, Changes
from headrace.sdk.positions import TOMBSTONE
from headrace.testing.transforms import TransformConformance
from headrace_transforms import Compute, Expand, Explode, Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_only = [pytest.mark.spark, pytest.mark.one_spark]

ROW = "struct<id int, note string, items array<string>>"
OWN = f"{KEY} struct<id int>, {OP} string, {DELETED} boolean, {ERROR} string, {DETAIL} string, {POSITION} string"
OPTIONS = {"column": "items", "tables": "orders"}
#: Operation, position, and the row before and after the change.
Event = tuple[str | None, str, Any, Any]


def changes_of(spark: SparkSession, *events: Event, row: str = ROW) -> Changes:
    """Return envelopes. Their key is that of the row."""
    data = [
        (
            before,
            after,
            op,
            ((after or before or (1,))[0],),
            op,
            op in ("d", None),
            "truncated" if op == "t" else None,
            None,
            position,
        )
        for op, position, before, after in events
    ]
    frame = frame_of(spark, f"before {row}, after {row}, op string, {OWN}", *data)
    return Changes(frame, envelope=True, table="orders", position_parts="x")


def elements_of(changes: Changes, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or (f"{KEY}.id", f"{KEY}.pos", OP, "before.items", "after.items", ERROR)
    return [tuple(row) for row in changes.frame.sort(POSITION).select(*names).collect()]


def order(*items: str | None, id: int = 1) -> tuple[Any, ...]:  # noqa: A002 - the column
    return (id, "x", list(items))


class TestElements:
    pytestmark = spark_only

    def test_each_element_has_a_history_of_its_own(self, spark: SparkSession) -> None:
        changes = changes_of(
            spark,
            ("c", "01", None, order("a", "b")),
            ("u", "02", order("a", "b"), order("a", "c", None)),
            ("u", "03", order("a", "c", None), order("d")),
            ("u", "04", order("d"), order()),
            ("u", "05", order(), (1, "x", None)),
            ("r", "06", None, order("e")),
            ("d", "07", order("e"), None),
            ("t", "08", None, None),
            (None, f"{TOMBSTONE}1", None, None),
        )
        result = Explode(OPTIONS).process(changes)
        assert elements_of(result) == [
            (1, 0, "c", None, "a", None),
            (1, 1, "c", None, "b", None),
            (1, 0, "u", "a", "a", None),
            (1, 1, "u", "b", "c", None),
            (1, 2, "c", None, None, None),
            (1, 0, "u", "a", "d", None),
            (1, 1, "d", "c", None, None),
            (1, 2, "d", None, None, None),
            (1, 0, "d", "d", None, None),
            (1, 0, "r", None, "e", None),
            (1, 0, "d", "e", None, None),
            (1, None, "t", None, None, "truncated"),
        ]
        deleted = [op == "d" for _, _, op, *_ in elements_of(result)][:-1]
        assert [row[0] for row in elements_of(result, DELETED)][:-1] == deleted
        assert result.position_parts is None
        rows = Unwrap().process(result)
        assert rows.event_columns == ["id", "note", "items", "pos"]

    def test_unknown_elements_are_dead_letters(self, spark: SparkSession) -> None:
        """A delete without REPLICA IDENTITY FULL has the key alone, and a change of the key no row before."""
        from pyspark.sql import functions as F

        changes = changes_of(
            spark,
            ("u", "1", None, order("a")),
            ("d", "2", (1, None, None), None),
            ("d", "3", None, None),
            ("u", "4", order("a"), order("b")),
            ("u", "5", (1, None, None), order("a")),
            ("d", "6", (1, "x", None), None),
            ("u", "7", (1, "x", None), order("a")),
        )
        flags = F.struct((F.col(POSITION) == "4").alias("note"))
        changes = replace(changes, frame=changes.frame.withColumn(UNAVAILABLE, flags))
        result = elements_of(Explode(OPTIONS).process(changes), POSITION, ERROR, DETAIL)
        rejected = {place: detail for place, error, detail in result if error == "untransformable"}
        assert set(rejected) == {"1", "2", "3", "4", "5"}
        missing, omitted = rejected["1"], rejected["4"]
        assert [place for place, detail in rejected.items() if detail == missing] == ["1", "2", "3", "5"]
        assert "set REPLICA IDENTITY FULL (PostgreSQL) or binlog_row_image=FULL (MySQL)" in missing
        assert "the event omits one of its values" in omitted

    def test_unreadable_array_before_the_change(self, spark: SparkSession) -> None:
        """Its elements are unknown: the row before it may have had more."""
        row = "struct<id int, note string, items string>"
        events: list[Event] = [
            ("u", "1", (1, "x", "no json"), (1, "x", "[1]")),
            ("u", "2", (1, "x", "[1, 2]"), (1, "x", "[3]")),
            ("d", "3", (1, "x", "no json"), None),
        ]
        expanded = Expand(columns={"items": "ARRAY<INT>"}).process(changes_of(spark, *events, row=row))
        assert elements_of(Explode(OPTIONS).process(expanded), f"{KEY}.pos", OP, ERROR) == [
            (None, "u", "untransformable"),
            (0, "u", None),
            (1, "d", None),
            (None, "d", "untransformable"),
        ]

    @pytest.mark.nightly
    def test_another_unreadable_column_before_the_change(self, spark: SparkSession) -> None:
        """Its elements are known, unless they were made from this column or it has an array."""
        row = "struct<id int, note string, tags string, items string>"
        events: list[Event] = [
            ("u", "1", (1, "no json", "[1]", "[1, 2]"), (1, '{"a": [2]}', "[1]", "[3]")),
            ("d", "2", (1, "no json", "[1]", "[3]"), None),
            ("u", "3", (1, None, "no json", "[1]"), (1, None, "[1]", "[3]")),
        ]
        columns = {"items": "ARRAY<INT>", "note": "a ARRAY<INT>", "tags": "ARRAY<INT>"}
        expanded = Expand(columns=columns).process(changes_of(spark, *events, row=row))
        found = elements_of(Explode(OPTIONS).process(expanded), f"{KEY}.pos", OP, ERROR)
        assert found == [(0, "u", None), (1, "d", None), (0, "d", None), (None, "u", "untransformable")]
        computed = Compute(columns={"items": "note.a"}).process(expanded)
        assert elements_of(Explode(OPTIONS).process(computed), ERROR) == [("untransformable",)] * 3

    def test_column_without_a_value_so_far(self, spark: SparkSession) -> None:
        changes = changes_of(spark, ("c", "1", None, (1, "x")), row="struct<id int, note string>")
        result = Explode(OPTIONS).process(changes)
        assert (result.key_columns, result.frame.count()) == (["id", "pos"], 0)

    def test_wrong_changes(self, spark: SparkSession) -> None:
        changes = changes_of(spark, ("c", "1", None, order("a")))
        with pytest.raises(DataError, match="put `explode` before `unwrap`"):
            Explode(OPTIONS).process(Unwrap().process(changes))
        with pytest.raises(DataError, match="'note' is string, and `explode` reads arrays") as raised:
            Explode({**OPTIONS, "column": "note"}).process(changes)
        assert "put `expand` before it" in str(raised.value)
        with pytest.raises(DataError, match="'ID' is part of the key"):
            Explode({**OPTIONS, "column": "ID"}).process(changes)
        with pytest.raises(DataError, match="already has a column 'Note'"):
            Explode({**OPTIONS, "position": "Note"}).process(changes)
        with pytest.raises(DataError, match="the changes have no key"):
            Explode(OPTIONS).process(replace(changes, frame=changes.frame.drop(KEY)))

    def test_plain_frame(self, spark: SparkSession) -> None:
        frame = changes_of(spark, ("c", "1", None, order("a", "b"))).frame.select("before", "after", "op")
        assert [tuple(row) for row in Explode(OPTIONS)(frame).select("after.pos", "after.items").collect()] == [
            (0, "a"),
            (1, "b"),
        ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "items"}, "requires `tables`"),
        ({**OPTIONS, "when": "true"}, "put `filter` before it"),
        ({**OPTIONS, "position": "_headrace_x"}, "is not a valid column name"),
        ({**OPTIONS, "column": ""}, "column"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Explode(options)


ARRAYS = st.one_of(st.none(), st.lists(st.sampled_from("abc"), max_size=4))
#: Arrays of a row in its history; a row that is deleted has none, and may be inserted again.
HISTORIES = st.lists(st.lists(st.one_of(st.just("deleted"), ARRAYS), min_size=1, max_size=8), min_size=20, max_size=40)


@pytest.mark.spark
@pytest.mark.one_spark
@settings(max_examples=3, deadline=None)
@given(histories=HISTORIES)
def test_latest_change_of_each_key_is_the_element_of_the_latest_row(spark: SparkSession, histories: list[Any]) -> None:
    """In any order of arrival, because the position decides, and with each change twice."""
    events: list[Event] = []
    for id_, states in enumerate(histories):
        old: Any = None
        for lsn, state in enumerate(states):
            new = None if state == "deleted" else (id_, "x", state)
            if old or new:
                op = "c" if old is None else "d" if new is None else "u"
                events.append((op, f"{lsn:02d}", old, new))
            old = new
    random.Random(0).shuffle(events)
    result = Explode(OPTIONS).process(changes_of(spark, *events, *events))
    latest: dict[Any, Any] = {}
    for id_, place, position, deleted, item, error in result.frame.select(
        f"{KEY}.id", f"{KEY}.pos", POSITION, DELETED, "after.items", ERROR
    ).collect():
        assert error is None
        latest[id_, place] = max(latest.get((id_, place), ("",)), (position, deleted, item or ""))
    found = {key: item for key, (_, deleted, item) in latest.items() if not deleted}
    last = {id_: states[-1] for id_, states in enumerate(histories)}
    expected = {
        (id_, n): item for id_, state in last.items() if state != "deleted" for n, item in enumerate(state or ())
    }
    assert found == expected


class TestExplodeKit(TransformConformance):
    pytestmark = spark_only
    plugin_class = Explode
    schema = "id int, name string, items array<string>"
    golden = (((1, "Arp", ["a", "b", "c"]), ()), ((2, "Bo", None), ()))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"column": "items", "tables": "kit.*"}


TOPIC = "shop.public.orders"


def event(op: str, lsn: int, id: int, old: str | None, new: str | None) -> dict[str, Any]:  # noqa: A002 - the column
    def row(items: str | None) -> dict[str, Any] | None:
        return None if items is None else {"id": id, "customer": "Arp", "items": items}

    return {"before": row(old), "after": row(new), "source": {"connector": "postgresql", "lsn": lsn}, "op": op}


def text_of(*skus: str) -> str:
    return str([{"sku": sku, "quantity": n} for n, sku in enumerate(skus, 1)]).replace("'", '"')


@pytest.mark.spark
@pytest.mark.one_spark
def test_table_of_elements(spark: SparkSession, tmp_path: Path) -> None:
    documented = yaml.safe_load(find_block("docs/transforms.md", "yaml", "explode:"))
    source = {"files": {"path": str(tmp_path / "bronze"), "format": "json"}}
    items = pipeline(tmp_path, "iceberg", source=source, **documented)

    def deliver(number: int, *events: dict[str, Any]) -> list[tuple[Any, ...]]:
        write_events(tmp_path, TOPIC, number, *events)
        items.run(spark)
        found = table_rows(items, spark, "shop.order_items", "pos")
        return sorted((row["id"], row["pos"], row["items_sku"], row["items_quantity"]) for row in found)

    two, three, one = text_of("pen", "ink"), text_of("pen", "ink", "nib"), text_of("cap")
    write_events(tmp_path, TOPIC, 0, event("c", 10, 1, None, two))
    items.check(spark)
    assert deliver(10, event("c", 11, 2, None, one), event("c", 12, 3, None, "no json")) == [
        (1, 0, "pen", 1),
        (1, 1, "ink", 2),
        (2, 0, "cap", 1),
    ]
    # The array shrinks, and the row of the other order is deleted. The change in between comes late.
    assert deliver(20, event("u", 30, 1, three, one), event("d", 31, 2, two, None)) == [(1, 0, "cap", 1)]
    late = event("u", 20, 1, two, three), event("u", 21, 2, one, two)
    assert deliver(30, *late, event("u", 40, 3, "no json", two)) == [(1, 0, "cap", 1)]
    letters = items.read("dead_letters", spark=spark).select("reason", "offset", "error").orderBy("offset").collect()
    assert [row[:2] for row in letters] == [("untransformable", 11), ("untransformable", 32)]
    assert letters[0]["error"] == "the column `items` is not valid JSON, or not a single JSON document"
    assert "headrace resync" in letters[1]["error"]
    truncate = {**event("t", 50, 0, None, None), "before": None}
    assert deliver(40, truncate, event("c", 60, 4, None, one)) == [(4, 0, "cap", 1)]


def elements_pipeline(folder: Path, *transforms: dict[str, Any]) -> Pipeline:
    return pipeline(
        folder,
        "iceberg",
        source={"files": {"path": str(folder / "bronze"), "format": "json"}},
        tables=[{"source": TOPIC, "key": ["id"], "target": "shop.order_items"}],
        transforms=[*transforms, {"explode": {"column": "items", "tables": "shop.order_items"}}, {"unwrap": {}}],
    )


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.one_spark
@pytest.mark.parametrize("last", [[], None])
def test_snapshot_ends_with_a_row_without_elements(spark: SparkSession, tmp_path: Path, last: Any) -> None:
    def order_of(op: str, id_: int, items: Any, lsn: int, snapshot: str = "false") -> dict[str, Any]:
        source = {"connector": "postgresql", "lsn": lsn, "sequence": f'[null,"{lsn}"]', "snapshot": snapshot}
        return {"before": None, "after": {"id": id_, "items": items}, "source": source, "op": op}

    items = elements_pipeline(tmp_path)
    write_events(tmp_path, TOPIC, 0, order_of("c", 1, ["a", "b"], 10), order_of("c", 2, ["c"], 11))
    items.run(spark)
    snapshot = order_of("r", 1, ["a"], 1000, "first"), order_of("r", 3, last, 1000, "last")
    write_events(tmp_path, TOPIC, 10, *snapshot)
    items.run(spark)
    assert len(table_rows(items, spark, "shop.order_items", "pos")) == 3
    items.resync("shop.order_items", spark=spark)
    found = [(row["id"], row["pos"], row["items"]) for row in table_rows(items, spark, "shop.order_items", "pos")]
    assert found == [(1, 0, "a")]


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.one_spark
def test_first_value_that_is_no_array_names_the_type_to_give(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, TOPIC, 0, event("c", 10, 1, None, '{"sku": "pen"}'))
    with pytest.raises(HeadraceError) as raised:
        elements_pipeline(tmp_path, {"expand": {"columns": ["items"]}}).run(spark)
    assert "the column 'items' is struct<sku:string>, and `explode` reads arrays" in str(raised.value)
    assert "name the type in it, `expand: {columns: {items: ARRAY<…>}}`" in str(raised.value)
    write_events(tmp_path, TOPIC, 1, event("c", 11, 2, None, '[{"sku": "ink"}]'))
    corrected = elements_pipeline(tmp_path, {"expand": {"columns": {"items": "ARRAY<STRUCT<sku: STRING>>"}}})
    corrected.run(spark)
    assert [row["id"] for row in table_rows(corrected, spark, "shop.order_items", "pos")] == [2]
    (letter,) = corrected.read("dead_letters", spark=spark).collect()
    assert (letter["reason"], letter["offset"]) == ("untransformable", 0)
