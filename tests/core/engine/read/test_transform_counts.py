"""Transforms that change the number of rows, which are counted or rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze
from tests.support.memory_sink import MemorySink
from tests.support.pipelines import COLUMNS, TOPIC, pipeline
from tests.support.ranged import LinesSource, append
from tests.support.tiers import nightly_after

from headrace import Pipeline, PluginError
from headrace.engine.read.transform_counts import apply_transform, find_nodes
from headrace.engine.run.ranged_query import check_next
from headrace.progress.model import TableProgress
from headrace.sdk import Changes, Transform
from headrace.sdk.changes import ERROR, KEY, POSITION
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def transform(apply: Callable[[DataFrame], DataFrame], *, filters: bool = False, multiplies: bool = False) -> Transform:
    class Rows(Transform):
        name = "rows"
        api_version = 1

        def apply(self, changes: Changes) -> Changes:
            return replace(changes, frame=apply(changes.frame))

    Rows.filters, Rows.multiplies = filters, multiplies
    return Rows()


def filter_odd(frame: DataFrame) -> DataFrame:
    return frame.where("id % 2 = 0")


def join_with(frame: DataFrame, how: str, *ids: int) -> DataFrame:
    """Join ``frame`` with a table of these IDs."""
    table = frame.sparkSession.createDataFrame([(n,) for n in ids], "id long")
    return frame.join(table, "id", how)


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> Changes:
    return Changes(spark.range(4).selectExpr("id", f"'0' {POSITION}", f"cast(null as string) {ERROR}"), envelope=False)


@pytest.mark.parametrize(
    "apply",
    [
        lambda frame: frame.selectExpr("*", "id + 1 next"),
        lambda frame: frame.withColumn("first", _window()).orderBy("id").repartition(2, "id"),
        lambda frame: frame.alias("rows").select("rows.*").withColumnRenamed("id", "number"),
        lambda frame: frame.observe("seen", _count()),
    ],
)
def test_projections_are_not_counted(changes: Changes, apply: Callable[[DataFrame], DataFrame]) -> None:
    assert find_nodes(changes.frame, apply(changes.frame)) == set()


def _window() -> Any:
    from pyspark.sql import Window, functions as F

    return F.first("id").over(Window.orderBy("id"))


def _count() -> Any:
    from pyspark.sql import functions as F

    return F.count(F.lit(1)).alias("rows")


@pytest.mark.parametrize(
    ("apply", "error"),
    [
        (filter_odd, "it may drop changes (its plan has Filter) without declaring it"),
        (lambda frame: frame.limit(3), "(its plan has GlobalLimit, LocalLimit) without declaring it"),
        (lambda frame: frame.dropDuplicates(["id"]), "(its plan has Deduplicate) without declaring it"),
        (
            lambda frame: frame.withColumn("x", _window()).where("x = 1").drop("x"),
            "(its plan has Filter) without declaring it",
        ),
        (lambda frame: frame.unionAll(frame), "it may multiply changes (its plan has Union)"),
        (
            lambda frame: frame.selectExpr("*", "explode(array(1, 2)) x"),
            "it may multiply changes (its plan has Generate)",
        ),
    ],
)
def test_plan_that_changes_the_number_of_rows_is_rejected(
    changes: Changes, apply: Callable[[DataFrame], DataFrame], error: str
) -> None:
    with pytest.raises(PluginError, match=r"^transform rows: ") as raised:
        apply_transform(transform(apply), changes, None)
    assert error in str(raised.value)


def test_transform_with_an_invalid_result_is_rejected(changes: Changes) -> None:
    lost = transform(lambda frame: frame.drop(ERROR, POSITION))
    with pytest.raises(PluginError, match="it removes required columns: _headrace_error, _headrace_position"):
        apply_transform(lost, changes, None)
    nothing: Any = transform(filter_odd)
    nothing.apply = lambda _: None
    with pytest.raises(PluginError, match="transform rows: apply returns NoneType instead of Changes"):
        apply_transform(nothing, changes, None)


def test_declared_filter_may_drop_rows_but_not_duplicate_them(changes: Changes) -> None:
    left = apply_transform(transform(filter_odd, filters=True), changes, None)
    assert left.frame.count() == 2
    with pytest.raises(PluginError, match="it may multiply changes"):
        apply_transform(transform(lambda frame: frame.unionAll(frame), filters=True), changes, None)


def test_transform_that_multiplies_extends_the_key(changes: Changes) -> None:
    from pyspark.sql import functions as F

    def double(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("*", "explode(array(1, 2)) copy")

    keyed = replace(changes, frame=changes.frame.withColumn(KEY, F.struct("id")))
    with pytest.raises(PluginError, match=r"^transform rows: it makes several changes of one, and adds no column"):
        apply_transform(transform(double, multiplies=True), keyed, None)
    numbered = transform(lambda frame: double(frame).withColumn(KEY, F.struct("id", "copy")), multiplies=True)
    assert apply_transform(numbered, keyed, None).frame.count() == 8


class Shop:
    """Log of eight orders with one change each, and a pipeline with one transform."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark, self.log = folder, spark, folder / "log.jsonl"
        append(self.log, range(1, 9))

    def run(self, applied: Transform, sink: Any = None) -> TableProgress:
        batches: list[Any] = []
        sink = sink or FilesSink(path=str(self.folder / "out"))
        source, checkpoint = LinesSource(path=str(self.log)), str(self.folder / "checkpoint")
        pipeline = Pipeline(
            "orders", source, [sink], checkpoint, value=JsonFormat(), key=JsonFormat(), transforms=[applied]
        )
        pipeline.run(self.spark, on_progress=batches.append)
        return batches[-1].tables[0]  # type: ignore[no-any-return]

    @property
    def rows(self) -> list[str]:
        """Written rows, as lines of JSON."""
        files = sorted((self.folder / "out").rglob("part-*.json"))
        return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Shop:
    return Shop(tmp_path, spark)


def test_filtered_rows_are_counted(shop: Shop) -> None:
    done = shop.run(transform(filter_odd, filters=True))
    assert (done.rows_in, done.applied, done.filtered) == (8, 4, 4)
    assert done.to_dict()["filtered"] == 4


def test_rows_in_is_the_sum_of_all_outcomes(shop: Shop) -> None:
    """In an upserted table, the outcomes include superseded changes."""
    append(shop.log, [2, 4, 5])
    sink = MemorySink(store=str(shop.folder))
    done = shop.run(transform(filter_odd, filters=True), sink)
    assert (done.rows_in, done.applied, done.superseded, done.late, done.filtered) == (11, 4, 2, 0, 5)


@pytest.mark.parametrize(
    ("apply", "made"),
    nightly_after(
        1,
        [
            (lambda frame: join_with(frame, "inner", 1, 2, 3), 3),
            (lambda frame: join_with(frame, "left", 1, 1, 1, 2), 10),
            (lambda frame: join_with(frame, "left_anti", 8), 7),
        ],
    ),
)
def test_join_that_changes_the_count_fails_before_the_write(
    shop: Shop, apply: Callable[[DataFrame], DataFrame], made: int
) -> None:
    with pytest.raises(PluginError, match=rf"^transform rows: it returns {made} changes for 8\n"):
        shop.run(transform(apply))
    assert shop.rows == []


def test_join_with_one_row_per_change_is_accepted(shop: Shop) -> None:
    done = shop.run(transform(lambda frame: join_with(frame, "left", 1, 3, 5)))
    assert (done.rows_in, done.applied, done.filtered) == (8, 8, 0)


def test_rows_dropped_by_a_declared_join_are_counted(shop: Shop) -> None:
    done = shop.run(transform(lambda frame: join_with(frame, "left_semi", 1, 3, 5), filters=True))
    assert (done.rows_in, done.applied, done.filtered) == (8, 3, 5)


def test_deletes_dropped_by_unwrap_are_counted(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    topic = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    arp, bauer = ({"artist_id": n, "name": name, "nationality": "x"} for n, name in ((1, "Arp"), (2, "Bauer")))
    topic.snapshot(arp)
    topic.snapshot(bauer)
    topic.delete(bauer)
    bronze.flush()
    built = pipeline(tmp_path, transforms=[{"unwrap": {"delete.tombstone.handling.mode": "drop"}}])
    (done,) = built.run(spark).tables
    assert (done.rows_in, done.applied, done.filtered) == (3, 2, 1)
    assert built.read("moma.artists", spark=spark).count() == 2


class FixedOffsets(LinesSource):
    """Source whose latest offsets are given by a test."""

    ends: tuple[Any, ...] = ()

    def latest(self, start: Any, limit: int | None) -> Any:
        self.asked += 1
        return self.ends[min(self.asked, len(self.ends)) - 1]


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        (({"line": 4}, {"line": 2}), 'its offsets decrease: latest returns {"line": 2} after {"line": 4}'),
        (("nonsense",), "latest returns an offset that is not a JSON object, a dict with JSON values: 'nonsense'"),
        (
            ({"line": {1}},),
            "latest returns an offset that is not a JSON object, a dict with JSON values: {'line': {1}}",
        ),
    ],
)
def test_source_with_decreasing_offsets_is_rejected(shop: Shop, ends: tuple[Any, ...], error: str) -> None:
    source = FixedOffsets(path=str(shop.log))
    source.ends = ends
    sink = FilesSink(path=str(shop.folder / "out"))
    pipeline = Pipeline("orders", source, [sink], str(shop.folder / "checkpoint"), value=JsonFormat(), key=JsonFormat())
    with pytest.raises(PluginError) as raised:
        pipeline.run(shop.spark)
    assert str(raised.value).startswith(f"source lines: {error}")
    assert len(shop.rows) == (4 if len(ends) == 2 else 0)


def test_plugin_that_returns_none_is_reported(shop: Shop) -> None:
    class ReturnsNoResult(FilesSink):
        name = "mute"

        def write(self, *_: Any) -> Any:
            super().write(*_)

    with pytest.raises(PluginError, match="sink mute: write returns NoneType instead of a WriteResult"):
        shop.run(transform(lambda frame: frame), ReturnsNoResult(path=str(shop.folder / "out")))

    class ReturnsNoRows(LinesSource):
        def read(self, *_: Any) -> Any:
            """Return None instead of a DataFrame."""

    source, sink = ReturnsNoRows(path=str(shop.log)), FilesSink(path=str(shop.folder / "out"))
    with pytest.raises(PluginError, match="source lines: read returns NoneType instead of a DataFrame"):
        Pipeline("blind", source, [sink], str(shop.folder / "blind"), value=JsonFormat(), key="none").run(shop.spark)


@pytest.mark.parametrize(
    ("start", "end", "is_valid"),
    [
        ({"file": 1, "line": 90}, {"file": 2, "line": 0}, True),
        ({"shards": {"a": 3}}, {"shards": {"b": 1}}, True),
        ({"at": "9"}, {"at": "10"}, True),
        ({"a": 3, "b": 3}, {"a": 3, "b": 3}, True),
        ({"a": 3, "b": 3}, {"a": 2, "b": 3}, False),
        ({"shards": {"a": 3, "b": 5}}, {"shards": {"a": 2, "b": 4}}, False),
    ],
)
def test_decreasing_offsets_are_detected(start: Any, end: Any, is_valid: bool) -> None:
    """Only the source can interpret an offset. Offsets are invalid if some of their numbers decrease and none increases."""
    source = LinesSource(path="log.jsonl")
    if is_valid:
        assert check_next(source, start, end) == end
    else:
        with pytest.raises(PluginError, match="its offsets decrease"):
            check_next(source, start, end)
