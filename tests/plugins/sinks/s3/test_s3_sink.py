"""Objects of the sink ``s3``, their names, and that each record is in exactly one object after interruptions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.s3_records import TOPIC, Orders, Record, order, split_like_connector
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError
from headrace.spark.sessions import Sessions
from headrace.testing.tables import VALUES, Target, plain, put
from headrace_sinks.s3 import s3_sink as sink_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PREFIX = f"{TOPIC}/partition=0/{TOPIC}+0+"


class CrashError(Exception):
    """Simulated end of the process."""


@pytest.fixture(scope="module")
def session(sessions: Sessions) -> SparkSession:
    return sessions.of("s3")


@pytest.fixture
def orders(tmp_path: Path, session: SparkSession) -> Callable[..., Orders]:
    """Return a factory of tables with options by their user-facing names."""

    def make(folder: str = "bucket", schema: str = "id int, name string", **options: Any) -> Orders:
        return Orders(tmp_path / folder, session, {"flush.size": 2, **options}, schema)

    return make


@pytest.mark.parametrize(
    ("options", "ending"),
    nightly_after(
        1,
        [
            ({"avro.codec": "deflate"}, ".avro"),
            ({"format": "json", "s3.compression.type": "gzip"}, ".json.gz"),
            ({"format": "parquet", "parquet.codec": "zstd"}, ".zstd.parquet"),
        ],
    ),
    ids=str,
)
def test_object_is_ordered_and_named_after_its_first_record(
    orders: Callable[..., Orders], options: dict[str, Any], ending: str
) -> None:
    table = orders(**options)
    table.write(order(3, None), order(1), order(2, "b"), order(7, partition=1), order(9), order(8, partition=1))
    assert table.objects() == {
        f"{PREFIX}0000000001{ending}": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        # a null value is a record
        f"{PREFIX}0000000003{ending}": [{"id": 3, "name": None}, {"id": 9, "name": "a"}],
        f"{TOPIC}/partition=1/{TOPIC}+1+0000000007{ending}": [{"id": 7, "name": "a"}, {"id": 8, "name": "a"}],
    }


def test_json_has_microseconds(orders: Callable[..., Orders]) -> None:
    at = "2024-02-29T23:59:59.123456"
    table = orders(schema="id int, local timestamp_ntz, instant timestamp", format="json", **{"flush.size": 1})
    table.write(Record(0, {"id": 0, "local": at, "instant": f"{at}Z"}))
    ((row,),) = table.objects().values()
    assert row == {"id": 0, "local": at, "instant": f"{at}Z"}


def test_records_are_sorted_once_and_by_their_offsets(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 1000})
    offsets = [n * 7919 % 2000 for n in range(2000)]
    table.write(*map(order, offsets))
    first, second = table.objects().values()
    assert [row["id"] for row in first + second] == list(range(2000))
    # Spark's writer would sort again by object if its columns differed from the sorted ones.
    store: Any = table.session._jsparkSession.sharedState().statusStore()
    plans = [store.executionsList().apply(n).physicalPlanDescription() for n in range(store.executionsList().size())]
    written = [plan for plan in plans if str(table.folder) in plan and "InsertIntoHadoopFsRelationCommand" in plan]
    (writes,) = [plan for plan in written if "/objects/" in plan]
    assert writes.count("+- Sort (") == 1, writes


def test_records_wait_until_their_object_is_complete(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 3})
    table.write(order(0))
    table.write(order(1), order(0, partition=1))
    assert table.objects() == {}
    assert table.read_back().count() == 0
    table.write()  # an empty batch
    table.write(order(2), order(3))
    assert {name: [row["id"] for row in rows] for name, rows in table.objects().items()} == {
        f"{PREFIX}0000000000.avro": [0, 1, 2]
    }
    assert sorted(row["id"] for row in table.read_back().collect()) == [0, 1, 2]


CRASHES = {
    "rows are staged": ("rotate", None),
    "objects are written": ("write_objects", "after"),
    "the batch is taken": ("move_objects", None),
    "objects are moved": ("move_objects", "after"),
}


@pytest.mark.parametrize("place", nightly_after(2, CRASHES))
def test_repeated_batch_after_a_crash_leaves_the_same_objects(
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
    assert found == split_like_connector([order(n) for n in range(6)], 2)
    left = [path.relative_to(table.folder) for path in table.folder.rglob("*") if path.is_file()]
    assert not [path for path in left if "objects" in path.parts], "nothing is left of the work"
    assert table.write_as(1, batch).skipped
    assert table.objects() == found


@pytest.mark.nightly
def test_batch_of_an_older_checkpoint_keeps_waiting_records(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 3})
    for batch, offsets in enumerate([(0,), (1,), (1, 2)]):
        table.write_as(min(batch, 1), map(order, offsets), f"digest{batch}")
    assert {name: [row["id"] for row in rows] for name, rows in table.objects().items()} == {
        f"{PREFIX}0000000000.avro": [0, 1, 2]
    }


def crash(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Simulate the end of the process at one of CRASHES."""
    name, when = CRASHES[place]
    real = getattr(sink_module, name)

    def crash_now(*arguments: Any) -> None:
        if when == "after":
            real(*arguments)
        raise CrashError

    monkeypatch.setattr(sink_module, name, crash_now)


def test_changed_options_after_a_crash_affect_only_waiting_records(
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
    # staged objects move unchanged; waiting records use the new options
    assert {name: [row["id"] for row in rows] for name, rows in table.objects().items()} == {
        f"{PREFIX}0000000000.avro": [0, 1],
        f"{PREFIX}0000000002.json": [2, 3, 4],
    }


@pytest.mark.parametrize("format", nightly_after(1, ["json", "parquet"]))
def test_values_of_all_types_survive(orders: Callable[..., Orders], format: str) -> None:  # noqa: A002
    table = orders(**{"flush.size": 1, "format": format})
    session = table.session
    rows = [[value[number] for value in VALUES.values()] for number in (1, 2, 3)]
    target = Target(table.sink, session)
    target.write(
        ", ".join(f"{name} {kind[0]}" for name, kind in VALUES.items()), *[put(n, *row) for n, row in enumerate(rows)]
    )
    assert target.rows() == [dict(zip(VALUES, map(plain, row), strict=True)) for row in rows]


@pytest.mark.nightly
def test_waiting_rows_do_not_become_bytes(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0))
    table.options["format"] = "bytes"
    with pytest.raises(DataError, match="pending records were staged for another format of their values than 'bytes'"):
        table.write(order(1, raw=b"1"))
    # only later records have stored keys
    table.options |= {"format": "avro", "store.kafka.keys": True}
    table.write(order(1, key={"id": 1}), order(2, key={"id": 2}))
    assert {name.partition("+0+")[2]: len(rows) for name, rows in table.objects().items()} == {
        "0000000000.avro": 1,
        "0000000001.avro": 2,
        "0000000001.keys.avro": 2,
    }


def test_new_schema_starts_new_objects(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 3})
    table.write(order(0), order(0, partition=1))
    table.schema = "id int, name string, size bigint"
    table.write(order(1), Record(2, {"id": 2, "name": "b", "size": 7}))
    table.schema = "id bigint, name string, size bigint"
    table.write(Record(3, {"id": 2**40, "name": None, "size": 8}), order(4), order(5))
    assert table.objects() == {
        f"{PREFIX}0000000000.avro": [{"id": 0, "name": "a"}],
        f"{PREFIX}0000000001.avro": [{"id": 1, "name": "a", "size": None}, {"id": 2, "name": "b", "size": 7}],
        f"{PREFIX}0000000003.avro": [
            {"id": 2**40, "name": None, "size": 8},
            {"id": 4, "name": "a", "size": None},
            {"id": 5, "name": "a", "size": None},
        ],
    }
    found = sorted(tuple(row) for row in table.read_back().select("id", "size").collect())
    assert found == [(0, None), (1, None), (2, 7), (4, None), (5, None), (2**40, 8)]
    table.schema = "id bigint, Name string, SIZE int"
    table.write(*[Record(n, {"id": n, "Name": "n", "SIZE": n}) for n in (6, 7, 8)])
    assert table.objects()[f"{PREFIX}0000000006.avro"][0] == {"id": 6, "name": "n", "size": 6}
    found = sorted(tuple(row) for row in table.read_back().where("name = 'n'").select("id", "size").collect())
    assert found == [(6, 6), (7, 7), (8, 8)]
    table.schema = "id binary"
    with pytest.raises(DataError, match="'id' is bigint in some records and binary in others"):
        table.write(Record(9, {"id": None}))


def test_rows_of_one_record_are_never_in_two_objects(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 1})
    table.write(order(0), order(1, "old key"), order(1, "new key"), order(2))
    assert {name[-15:]: [row["name"] for row in rows] for name, rows in table.objects().items()} == {
        "0000000000.avro": ["a"],
        "0000000001.avro": ["old key", "new key"],
        "0000000002.avro": ["a"],
    }


def test_recreated_topic_does_not_overwrite_objects(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0), order(1))
    with pytest.raises(DataError, match=f"offset 1 of {TOPIC}, partition 0, follows offset 1"):
        table.write(order(1, "another"))
    assert table.objects() == {f"{PREFIX}0000000000.avro": [{"id": 0, "name": "a"}, {"id": 1, "name": "a"}]}


@pytest.mark.nightly
def test_objects_of_another_pipeline_are_not_overwritten(
    orders: Callable[..., Orders], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = orders(), orders()
    second.pipeline = "another"
    first.write(order(0), order(1))
    objects = first.objects()
    for _ in range(2):  # The repeated batch of the other pipeline is rejected again.
        with pytest.raises(ConfigError, match="the object exists: another pipeline or an earlier checkpoint") as raised:
            second.write(order(0, "b"), order(1, "b"))
        assert str(raised.value.where).endswith(f"{PREFIX}0000000000.avro")
        assert first.objects() == objects
    first.write(order(2), order(3))
    assert list(first.objects()) == [f"{PREFIX}0000000000.avro", f"{PREFIX}0000000002.avro"]

    crash(monkeypatch, "the batch is taken")
    with pytest.raises(CrashError):
        first.write(order(4), order(5))
    monkeypatch.undo()
    second.write(order(4, "b"), order(5, "b"))
    with pytest.raises(ConfigError, match="it is not replaced"):
        first.write(order(4), order(5))
    assert [row["name"] for row in first.objects()[f"{PREFIX}0000000004.avro"]] == ["b", "b"]


def test_interrupted_copy_of_an_object_is_completed(
    orders: Callable[..., Orders], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders()
    crash(monkeypatch, "the batch is taken")
    with pytest.raises(CrashError):
        table.write(order(0), order(1))
    monkeypatch.undo()
    # An object store copies the file first, and then deletes the old one.
    (file,) = (path for path in table.folder.rglob("*.avro") if "objects" in path.parts)
    target = table.folder / "topics" / f"{PREFIX}0000000000.avro"
    target.parent.mkdir(parents=True)
    shutil.copy(file, target)
    table.write(order(0), order(1))
    assert table.objects() == split_like_connector([order(0), order(1)], 2)
    assert not file.exists()


def test_replayed_dead_letters_are_written_immediately(orders: Callable[..., Orders]) -> None:
    table = orders()
    table.write(order(0), order(2))
    table.pipeline, table.batch = "checkpoint/replay/1", -1
    table.write(order(1))
    assert list(table.objects()) == [f"{PREFIX}0000000000.avro", f"{PREFIX}0000000001.avro"]


def test_idle_partitions_do_not_delay_others(orders: Callable[..., Orders]) -> None:
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
def test_equal_offsets_give_equal_objects_for_all_batches(
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
    expected = split_like_connector(taken, flush_size, interval, lambda r: f"name={r.row['name']}", ".json")
    assert table.objects() == expected
