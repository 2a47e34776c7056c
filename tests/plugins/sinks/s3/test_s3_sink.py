"""Objects, their names, and that each record is in one of them, whatever is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.s3_records import TOPIC, Orders, Record, cut_as_connector, order

from headrace import DataError
from headrace.spark.sessions import Sessions
from headrace.testing.tables import VALUES, Target, plain, put
from headrace_sinks.s3 import s3_sink as sink_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

HERE = f"{TOPIC}/partition=0/{TOPIC}+0+"


class CrashError(Exception):
    """The process ends here."""


@pytest.fixture(scope="module")
def session(clones: Sessions) -> SparkSession:
    return clones.of("s3")


@pytest.fixture
def orders(tmp_path: Path, session: SparkSession) -> Callable[..., Orders]:
    """A table with some options, by the names that users write."""

    def make(folder: str = "bucket", schema: str = "id int, name string", **options: Any) -> Orders:
        return Orders(tmp_path / folder, session, {"flush.size": 2, **options}, schema)

    return make


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({"avro.codec": "deflate"}, ".avro"),
        ({"format": "json", "s3.compression.type": "gzip"}, ".json.gz"),
        ({"format": "parquet", "parquet.codec": "zstd"}, ".zstd.parquet"),
    ],
    ids=str,
)
def test_an_object_has_its_records_in_order_and_is_called_after_the_first(
    orders: Callable[..., Orders], options: dict[str, Any], ending: str
) -> None:
    table = orders(**options)
    table.write(order(3, None), order(1), order(2, "b"), order(7, partition=1), order(9), order(8, partition=1))
    assert table.objects() == {
        f"{HERE}0000000001{ending}": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        # a value that is null is there
        f"{HERE}0000000003{ending}": [{"id": 3, "name": None}, {"id": 9, "name": "a"}],
        f"{TOPIC}/partition=1/{TOPIC}+1+0000000007{ending}": [{"id": 7, "name": "a"}, {"id": 8, "name": "a"}],
    }


def test_records_are_sorted_once_and_by_their_offsets(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 1000})
    offsets = [n * 7919 % 2000 for n in range(2000)]
    table.write(*map(order, offsets))
    first, second = table.objects().values()
    assert [row["id"] for row in first + second] == list(range(2000))
    # Spark's writer sorts again, by objects alone, where their columns are not what it has sorted by.
    store: Any = table.session._jsparkSession.sharedState().statusStore()
    plans = [store.executionsList().apply(n).physicalPlanDescription() for n in range(store.executionsList().size())]
    written = [plan for plan in plans if str(table.folder) in plan and "InsertIntoHadoopFsRelationCommand" in plan]
    (writes,) = [plan for plan in written if "/objects/" in plan]
    assert writes.count("+- Sort (") == 1, writes


def test_records_wait_until_their_object_is_whole(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 3})
    table.write(order(0))
    table.write(order(1), order(0, partition=1))
    assert table.objects() == {}
    assert table.read_back().count() == 0
    table.write()  # a batch of nothing
    table.write(order(2), order(3))
    assert {name: [row["id"] for row in rows] for name, rows in table.objects().items()} == {
        f"{HERE}0000000000.avro": [0, 1, 2]
    }
    assert sorted(row["id"] for row in table.read_back().collect()) == [0, 1, 2]


CRASHES = {
    "rows are staged": ("rotate", None),
    "objects are written": ("write_objects", "after"),
    "the batch is taken": ("move_objects", None),
    "objects are moved": ("move_objects", "after"),
}


@pytest.mark.parametrize("place", CRASHES)
def test_a_batch_that_is_repeated_after_a_crash_leaves_the_same_objects(
    orders: Callable[..., Orders], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders()
    table.write(order(0))
    batch = [order(1), order(2), order(3), order(4)]
    crash(monkeypatch, place)
    with pytest.raises(CrashError):
        table.write(*batch)
    monkeypatch.undo()
    table.write(*batch)
    table.write(*[order(5)])
    found = table.objects()
    assert found == cut_as_connector([order(n) for n in range(6)], 2)
    left = [path.relative_to(table.folder) for path in table.folder.rglob("*") if path.is_file()]
    assert not [path for path in left if "objects" in path.parts], "nothing is left of the work"
    assert table.write_as(1, batch).skipped
    assert table.objects() == found


def crash(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """From now on the process ends at a place."""
    name, when = CRASHES[place]
    real = getattr(sink_module, name)

    def end(*arguments: Any) -> None:
        if when == "after":
            real(*arguments)
        raise CrashError

    monkeypatch.setattr(sink_module, name, end)


def test_options_that_change_after_a_crash_are_those_of_what_was_not_taken(
    orders: Callable[..., Orders], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders()
    crash(monkeypatch, "the batch is taken")
    with pytest.raises(CrashError):
        table.write(order(0), order(1), order(2))
    monkeypatch.undo()
    table.options |= {"flush.size": 3, "format": "json"}
    table.write(order(0), order(1), order(2))
    table.write(order(3), order(4), order(5))
    # what was taken is moved as it was written; what waited is of the new options
    assert {name: [row["id"] for row in rows] for name, rows in table.objects().items()} == {
        f"{HERE}0000000000.avro": [0, 1],
        f"{HERE}0000000002.json": [2, 3, 4],
    }


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_values_of_all_types_come_back(orders: Callable[..., Orders], format: str) -> None:  # noqa: A002
    table = orders(**{"flush.size": 1, "format": format})
    session = table.session
    rows = [[value[number] for value in VALUES.values()] for number in (1, 2, 3)]
    target = Target(table.sink, session)
    target.write(
        ", ".join(f"{name} {kind[0]}" for name, kind in VALUES.items()), *[put(n, *row) for n, row in enumerate(rows)]
    )
    assert target.rows() == [dict(zip(VALUES, map(plain, row), strict=True)) for row in rows]


def test_what_waited_as_rows_does_not_become_bytes(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0))
    table.options["format"] = "bytes"
    with pytest.raises(DataError, match="pending records were staged for another format of their values than 'bytes'"):
        table.write(order(1, raw=b"1"))
    # keys are stored of records that come from now on
    table.options |= {"format": "avro", "store.kafka.keys": True}
    table.write(order(1, key={"id": 1}), order(2, key={"id": 2}))
    assert {name.partition("+0+")[2]: len(rows) for name, rows in table.objects().items()} == {
        "0000000000.avro": 1,
        "0000000001.avro": 2,
        "0000000001.keys.avro": 2,
    }


def test_another_schema_begins_other_objects(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 3})
    table.write(order(0), order(0, partition=1))
    table.schema = "id int, name string, size bigint"
    table.write(order(1), Record(2, {"id": 2, "name": "b", "size": 7}))
    table.schema = "id bigint, name string, size bigint"
    table.write(Record(3, {"id": 2**40, "name": None, "size": 8}), order(4), order(5))
    assert table.objects() == {
        f"{HERE}0000000000.avro": [{"id": 0, "name": "a"}],
        f"{HERE}0000000001.avro": [{"id": 1, "name": "a", "size": None}, {"id": 2, "name": "b", "size": 7}],
        f"{HERE}0000000003.avro": [
            {"id": 2**40, "name": None, "size": 8},
            {"id": 4, "name": "a", "size": None},
            {"id": 5, "name": "a", "size": None},
        ],
    }
    found = sorted(tuple(row) for row in table.read_back().select("id", "size").collect())
    assert found == [(0, None), (1, None), (2, 7), (4, None), (5, None), (2**40, 8)]
    table.schema = "id binary"
    with pytest.raises(DataError, match="'id' is bigint in some records and binary in others"):
        table.write(Record(6, {"id": None}))


def test_rows_of_one_record_are_never_in_two_objects(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 1})
    table.write(order(0), order(1, "old key"), order(1, "new key"), order(2))
    assert {name[-15:]: [row["name"] for row in rows] for name, rows in table.objects().items()} == {
        "0000000000.avro": ["a"],
        "0000000001.avro": ["old key", "new key"],
        "0000000002.avro": ["a"],
    }


def test_a_topic_that_begins_anew_does_not_write_over_what_is_there(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0), order(1))
    with pytest.raises(DataError, match=f"offset 1 of {TOPIC}, partition 0, follows offset 1"):
        table.write(order(1, "another"))
    assert table.objects() == {f"{HERE}0000000000.avro": [{"id": 0, "name": "a"}, {"id": 1, "name": "a"}]}


def test_dead_letters_that_are_read_again_are_objects_at_once(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0), order(2))
    table.pipeline, table.batch = "checkpoint/replay/1", -1
    table.write(order(1))
    assert list(table.objects()) == [f"{HERE}0000000000.avro", f"{HERE}0000000001.avro"]


def test_partitions_that_bring_nothing_hold_no_rows_of_others_back(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0, partition=1))
    for number in range(3):
        table.write(order(2 * number), order(2 * number + 1))
    (staged,) = table.folder.rglob("staged")
    assert [path.name for path in staged.iterdir()] == ["0"]


BATCHES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, *CRASHES])), min_size=1, max_size=4)
STEPS = st.lists(st.tuples(st.integers(0, 1), st.integers(-40, 90)), min_size=12, max_size=12)


@settings(max_examples=3, derandomize=True)
@given(batches=BATCHES, steps=STEPS, flush_size=st.integers(1, 4), interval=st.sampled_from([-1, 60]))
def test_the_same_offsets_give_the_same_objects_however_they_arrive(
    tmp_path_factory: pytest.TempPathFactory,
    session: SparkSession,
    batches: list[tuple[int, str | None]],
    steps: list[tuple[int, int]],
    flush_size: int,
    interval: int,
) -> None:
    options: dict[str, Any] = {"flush.size": flush_size, "rotate.interval.ms": interval, "format": "json"}
    options |= {"timestamp.extractor": "Record", "partitioner": "field", "partition.field.name": "name"}
    table = Orders(tmp_path_factory.mktemp("bucket"), session, options)
    records, time = [], 1_000
    for offset, (partition, step) in enumerate(steps):
        time += step
        records.append(order(offset, "ab"[step % 2], partition=partition, time=time))
    rest = records
    for size, place in batches:
        batch, rest = rest[:size], rest[size:]
        with pytest.MonkeyPatch.context() as patch:
            if place:
                crash(patch, place)
            try:
                table.write(*batch)
            except CrashError:
                patch.undo()
                table.write(*batch)
    taken = records[: len(records) - len(rest)]
    expected = cut_as_connector(taken, flush_size, interval, lambda r: f"name={r.row['name']}", ".json")
    assert table.objects() == expected
