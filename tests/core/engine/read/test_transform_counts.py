"""A transform that changes the number of rows is counted, or refused with its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze
from tests.support.memory_sink import MemorySink
from tests.support.pipelines import COLUMNS, TOPIC, pipeline
from tests.support.ranged import LinesSource, append

from headrace import Pipeline, PluginError
from headrace.engine.read.transform_counts import apply_transform, find_nodes
from headrace.engine.run.ranged_query import check_next
from headrace.progress.model import TableProgress
from headrace.sdk import Changes, Transform
from headrace.sdk.changes import ERROR, POSITION
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def transform(apply: Callable[[DataFrame], DataFrame], *, filters: bool = False) -> Transform:
    class Rows(Transform):
        name = "rows"
        api_version = 1

        def apply(self, changes: Changes) -> Changes:
            return replace(changes, frame=apply(changes.frame))

    Rows.filters = filters
    return Rows()


def leave_out_odd(frame: DataFrame) -> DataFrame:
    return frame.where("id % 2 = 0")


def look_up(frame: DataFrame, how: str, *ids: int) -> DataFrame:
    """With a table that has these ids."""
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
    ("apply", "said"),
    [
        (leave_out_odd, "it may leave changes out (its plan has Filter) without declaring it"),
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
def test_a_plan_that_changes_their_number_is_refused(
    changes: Changes, apply: Callable[[DataFrame], DataFrame], said: str
) -> None:
    with pytest.raises(PluginError, match=r"^transform rows: ") as raised:
        apply_transform(transform(apply), changes, None)
    assert said in str(raised.value)


def test_what_is_no_change_any_more_is_refused(changes: Changes) -> None:
    lost = transform(lambda frame: frame.drop(ERROR, POSITION))
    with pytest.raises(PluginError, match="it removes required columns: _headrace_error, _headrace_position"):
        apply_transform(lost, changes, None)
    nothing: Any = transform(leave_out_odd)
    nothing.apply = lambda _: None
    with pytest.raises(PluginError, match="transform rows: apply returns NoneType instead of Changes"):
        apply_transform(nothing, changes, None)


def test_one_that_says_so_may_leave_out_and_not_double(changes: Changes) -> None:
    left = apply_transform(transform(leave_out_odd, filters=True), changes, None)
    assert left.frame.count() == 2
    with pytest.raises(PluginError, match="it may multiply changes"):
        apply_transform(transform(lambda frame: frame.unionAll(frame), filters=True), changes, None)


class Shop:
    """Eight orders, each a change of its own, through a transform."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark, self.log = folder, spark, folder / "log.jsonl"
        append(self.log, range(1, 9))

    def run(self, used: Transform, sink: Any = None) -> TableProgress:
        batches: list[Any] = []
        sink = sink or FilesSink(path=str(self.folder / "out"))
        source, checkpoint = LinesSource(path=str(self.log)), str(self.folder / "checkpoint")
        job = Pipeline("orders", source, [sink], checkpoint, value=JsonFormat(), key=JsonFormat(), transforms=[used])
        job.run(self.spark, on_progress=batches.append)
        return batches[-1].tables[0]  # type: ignore[no-any-return]

    @property
    def rows(self) -> list[str]:
        """What was written, as lines of JSON."""
        files = sorted((self.folder / "out").rglob("part-*.json"))
        return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Shop:
    return Shop(tmp_path, spark)


def test_what_is_left_out_is_counted(shop: Shop) -> None:
    done = shop.run(transform(leave_out_odd, filters=True))
    assert (done.rows_in, done.applied, done.filtered) == (8, 4, 4)
    assert done.to_dict()["filtered"] == 4


def test_rows_in_are_all_that_became_of_them(shop: Shop) -> None:
    """Of a table that is upserted: changes that a newer one of their key made void among them."""
    append(shop.log, [2, 4, 5])
    sink = MemorySink(store=str(shop.folder))
    done = shop.run(transform(leave_out_odd, filters=True), sink)
    assert (done.rows_in, done.applied, done.superseded, done.late, done.filtered) == (11, 4, 2, 0, 5)


@pytest.mark.parametrize(
    ("apply", "made"),
    [
        (lambda frame: look_up(frame, "inner", 1, 2, 3), 3),
        (lambda frame: look_up(frame, "left", 1, 1, 1, 2), 10),
        (lambda frame: look_up(frame, "left_anti", 8), 7),
    ],
)
def test_a_join_is_counted_before_anything_is_written(
    shop: Shop, apply: Callable[[DataFrame], DataFrame], made: int
) -> None:
    with pytest.raises(PluginError, match=rf"^transform rows: it returns {made} changes for 8\n"):
        shop.run(transform(apply))
    assert shop.rows == []


def test_a_join_that_gives_one_for_each_is_right(shop: Shop) -> None:
    done = shop.run(transform(lambda frame: look_up(frame, "left", 1, 3, 5)))
    assert (done.rows_in, done.applied, done.filtered) == (8, 8, 0)


def test_a_join_that_says_that_it_leaves_out_is_counted(shop: Shop) -> None:
    done = shop.run(transform(lambda frame: look_up(frame, "left_semi", 1, 3, 5), filters=True))
    assert (done.rows_in, done.applied, done.filtered) == (8, 3, 5)


def test_unwrap_that_leaves_deletes_out_counts_them(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    topic = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    arp, bauer = ({"artist_id": n, "name": name, "nationality": "x"} for n, name in ((1, "Arp"), (2, "Bauer")))
    topic.snapshot(arp)
    topic.snapshot(bauer)
    topic.delete(bauer)
    bronze.flush()
    job = pipeline(tmp_path, transforms=[{"unwrap": {"delete.tombstone.handling.mode": "drop"}}])
    (done,) = job.run(spark).tables
    assert (done.rows_in, done.applied, done.filtered) == (3, 2, 1)
    assert job.read("moma.artists", spark=spark).count() == 2


class Backwards(LinesSource):
    """Says what a test wants, one end after the other."""

    ends: tuple[Any, ...] = ()

    def latest(self, start: Any, limit: int | None) -> Any:
        self.asked += 1
        return self.ends[min(self.asked, len(self.ends)) - 1]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (({"line": 4}, {"line": 2}), 'its offsets decrease: latest returns {"line": 2} after {"line": 4}'),
        (("nonsense",), "latest returns an offset that is not a JSON object: str"),
        (({"line": {1}},), "latest returns an offset that is not a JSON object: dict"),
    ],
)
def test_a_source_that_runs_backwards_is_an_error(shop: Shop, ends: tuple[Any, ...], said: str) -> None:
    source = Backwards(path=str(shop.log))
    source.ends = ends
    sink = FilesSink(path=str(shop.folder / "out"))
    job = Pipeline("orders", source, [sink], str(shop.folder / "checkpoint"), value=JsonFormat(), key=JsonFormat())
    with pytest.raises(PluginError) as raised:
        job.run(shop.spark)
    assert str(raised.value).startswith(f"source lines: {said}")
    assert len(shop.rows) == (4 if len(ends) == 2 else 0)


def test_what_gives_nothing_is_named(shop: Shop) -> None:
    class Mute(FilesSink):
        name = "mute"

        def write(self, *_: Any) -> Any:
            super().write(*_)

    with pytest.raises(PluginError, match="sink mute: write returns NoneType instead of a WriteResult"):
        shop.run(transform(lambda frame: frame), Mute(path=str(shop.folder / "out")))

    class Blind(LinesSource):
        def read(self, *_: Any) -> Any:
            """Forgets to return."""

    source, sink = Blind(path=str(shop.log)), FilesSink(path=str(shop.folder / "out"))
    with pytest.raises(PluginError, match="source lines: read returns NoneType instead of a DataFrame"):
        Pipeline("blind", source, [sink], str(shop.folder / "blind"), value=JsonFormat(), key="none").run(shop.spark)


@pytest.mark.parametrize(
    ("start", "end", "goes_on"),
    [
        ({"file": 1, "line": 90}, {"file": 2, "line": 0}, True),
        ({"shards": {"a": 3}}, {"shards": {"b": 1}}, True),
        ({"at": "9"}, {"at": "10"}, True),
        ({"a": 3, "b": 3}, {"a": 3, "b": 3}, True),
        ({"a": 3, "b": 3}, {"a": 2, "b": 3}, False),
        ({"shards": {"a": 3, "b": 5}}, {"shards": {"a": 2, "b": 4}}, False),
    ],
)
def test_which_offsets_go_on(start: Any, end: Any, goes_on: bool) -> None:
    """Nobody but the source knows what an offset means: what only fell is all that can be said."""
    source = LinesSource(path="log.jsonl")
    if goes_on:
        assert check_next(source, start, end) == end
    else:
        with pytest.raises(PluginError, match="its offsets decrease"):
            check_next(source, start, end)
