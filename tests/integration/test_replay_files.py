"""Replay of dead letters from files: headrace reads the files again and applies only the rejected records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.memory_sink import MemorySink
from tests.support.tiers import nightly_after

from headrace import Pipeline
from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.dead_letters.replay_queue import ReplayQueue
from headrace.engine.commands.replay import ReplayResult, replay
from headrace.engine.plan.routing import Target
from headrace.engine.write.table_writer import TableWriter
from headrace.errors import ConfigError
from headrace.testing._internal.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.orders"
#: Lines that cannot become rows, regardless of the column's type.
UNDECODABLE = (b"{cut", b"\xff", b"null")


def price_event(number: int, price: Any, *, lsn: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "lsn": lsn}
    return {"before": None, "after": {"id": number, "price": price, "lsn": lsn}, "source": source, "op": "c"}


def job(folder: Path, price: str, **changed: Any) -> Pipeline:
    """Return a pipeline with this type for prices. It appends every change, so a change that is applied twice becomes visible."""
    config = {
        "source": {"files": {"path": str(folder / "bronze"), "format": "json"}},
        "tables": [{"source": TOPIC, "target": "shop.orders", "key": ["id"], "columns": {"price": price}}],
        "sinks": [pipelines.sink_block("iceberg", folder, mode="changelog")],
    }
    return pipelines.pipeline(folder, **{**config, **changed})


def rows(pipeline: Pipeline, spark: SparkSession) -> list[tuple[int, str]]:
    found = pipeline.read("shop.orders", spark=spark).select("lsn", "price").collect()
    return sorted((row["lsn"], str(row["price"])) for row in found)


def read_dead_letters(pipeline: Pipeline, spark: SparkSession) -> list[tuple[str, int, bytes, Any]]:
    """Return file, offset, bytes and time of each dead letter."""
    found = pipeline.read("dead_letters", spark=spark).collect()
    return sorted((row["file"].rsplit("/", 1)[-1], row["offset"], bytes(row["value"]), row["seen"]) for row in found)


def write_files(folder: Path) -> tuple[Path, Path]:
    """Write two files, one of which has its first offset in its name."""
    numbered, plain = folder / f"bronze/{TOPIC}/{TOPIC}+0+100.json", folder / f"bronze/{TOPIC}/müll [1].json"
    write_lines(
        numbered,
        [b"null", price_event(1, 1.5, lsn=10), price_event(2, 1234.5, lsn=11), b"{cut", price_event(1, 1234.5, lsn=5)],
    )
    write_lines(plain, [price_event(3, 2.5, lsn=12), price_event(4, 9876.5, lsn=13), b"null", b"\xff"])
    return numbered, plain


@pytest.mark.parametrize(
    "options", nightly_after(1, [{}, {"dead.letters.table": "ops.dead_letters"}]), ids=["files", "table"]
)
def test_dead_letters_of_files_are_replayed_once(tmp_path: Path, spark: SparkSession, options: dict[str, str]) -> None:
    write_files(tmp_path)
    narrow, wide = job(tmp_path, "decimal(5,2)", **options), job(tmp_path, "decimal(9,2)", **options)
    narrow.run(spark)
    assert rows(narrow, spark) == [(10, "1.50"), (12, "2.50")]
    before = read_dead_letters(narrow, spark)
    assert len(before) == 7
    assert (f"{TOPIC}+0+100.json", 103, b"{cut") in [dead_letter[:3] for dead_letter in before]
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 7, 4)]
    expected = [(5, "1234.50"), (10, "1.50"), (11, "1234.50"), (12, "2.50"), (13, "9876.50")]
    assert rows(wide, spark) == expected
    # The remaining dead letters keep their offset and time.
    assert read_dead_letters(wide, spark) == [dead_letter for dead_letter in before if dead_letter[2] in UNDECODABLE]
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 4, 4)]
    assert rows(wide, spark) == expected
    assert len(read_dead_letters(wide, spark)) == 4


@pytest.mark.nightly
def test_replay_reads_repaired_file(tmp_path: Path, spark: SparkSession) -> None:
    numbered, _ = write_files(tmp_path)
    pipeline = job(tmp_path, "decimal(9,2)")
    pipeline.run(spark)
    numbered.write_bytes(numbered.read_bytes().replace(b"{cut", json.dumps(price_event(5, 3.5, lsn=14)).encode()))
    assert list(replay(pipeline.plan, spark)) == [ReplayResult("shop.orders", 4, 3)]
    assert (14, "3.50") in rows(pipeline, spark)


@pytest.mark.nightly
def test_replay_reads_repaired_record_with_a_new_schema(tmp_path: Path, spark: SparkSession) -> None:
    def record(**row: int) -> bytes:
        fields = [{"field": name, "type": "int32", "optional": True} for name in row]
        after = {"field": "after", "type": "struct", "fields": fields, "optional": True}
        schema = {"type": "struct", "fields": [after, {"field": "op", "type": "string"}]}
        return json.dumps({"schema": schema, "payload": {"after": row, "op": "c"}}).encode()

    file = tmp_path / f"bronze/{TOPIC}/{TOPIC}+0+0.json"
    write_lines(file, [record(id=1), b"{cut"])
    pipeline = job(tmp_path, "", tables=[{"source": TOPIC, "target": "shop.orders", "key": ["id"]}])
    pipeline.run(spark)
    write_lines(file, [record(id=1), record(id=2, new=3)])
    assert list(replay(pipeline.plan, spark)) == [ReplayResult("shop.orders", 1, 0)]
    found = pipeline.read("shop.orders", spark=spark).select("id", "new").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, None), (2, 3)]


@pytest.mark.nightly
def test_replay_keeps_dead_letters_of_missing_or_shorter_files(tmp_path: Path, spark: SparkSession) -> None:
    numbered, plain = write_files(tmp_path)
    narrow, wide = job(tmp_path, "decimal(5,2)"), job(tmp_path, "decimal(9,2)")
    narrow.run(spark)
    before = read_dead_letters(narrow, spark)
    content = plain.read_bytes()
    plain.write_bytes(content.splitlines(keepends=True)[0])
    shutil.move(numbered, tmp_path)
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 0, 0, 7)]
    assert read_dead_letters(wide, spark) == before
    plain.write_bytes(content)
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 3, 2), ReplayResult("shop.orders", 0, 0, 4)]
    assert rows(wide, spark) == [(10, "1.50"), (12, "2.50"), (13, "9876.50")]
    shutil.move(tmp_path / numbered.name, numbered)
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 2, 2), ReplayResult("shop.orders", 4, 2)]
    assert [(file, offset) for file, offset, *_ in read_dead_letters(wide, spark)] == [
        (file, offset) for file, offset, value, _ in before if value in UNDECODABLE
    ]


@pytest.mark.nightly
def test_value_of_the_row_before_a_change_does_not_make_an_applied_record_a_dead_letter(
    tmp_path: Path, spark: SparkSession
) -> None:
    """A replay would append its row again."""
    update = {**price_event(1, 2.5, lsn=11), "before": {"id": 1, "price": 1234.5, "lsn": 10}, "op": "u"}
    write_lines(tmp_path / f"bronze/{TOPIC}/{TOPIC}+0+0.json", [price_event(1, 1.5, lsn=10), update, b"{cut"])
    pipeline = job(tmp_path, "decimal(5,2)")
    pipeline.run(spark)
    assert rows(pipeline, spark) == [(10, "1.50"), (11, "2.50")]
    assert [dead_letter[2] for dead_letter in read_dead_letters(pipeline, spark)] == [b"{cut"]


def write_avro(path: Path, event: dict[str, Any], fields: dict[str, Any]) -> None:
    # A record has no default.
    types: list[Any] = [
        {"name": name, "type": kind, **({"default": None} if isinstance(kind, list) else {})}
        for name, kind in fields.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Event", "fields": types}, [event])


@pytest.mark.nightly
def test_replay_keeps_a_schema_change_that_has_a_file_of_its_own(tmp_path: Path, spark: SparkSession) -> None:
    """The topic has no rows in this replay, but its table has."""
    names = {"connector": "string", "lsn": "long"}
    source = {"type": "record", "name": "Source", "fields": [{"name": n, "type": t} for n, t in names.items()]}
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    event = {"source": {"connector": "postgresql", "lsn": 10}}
    folder = tmp_path / "bronze" / TOPIC
    write_avro(
        folder / f"{TOPIC}+0+0.avro",
        {**event, "after": {"id": 1}, "op": "c"},
        {"after": ["null", row], "source": source, "op": ["null", "string"]},
    )
    write_avro(folder / f"{TOPIC}+0+1.avro", {**event, "ddl": "ALTER"}, {"source": source, "ddl": ["null", "string"]})
    files = {"files": {"path": str(tmp_path / "bronze"), "format": "avro"}}
    rule = {"source": TOPIC, "target": "shop.orders", "key": ["id"]}
    pipeline = job(tmp_path, "", source=files, tables=[rule])
    pipeline.run(spark)
    for _ in range(2):
        assert list(replay(pipeline.plan, spark)) == [ReplayResult("shop.orders", 1, 1)]
        found = pipeline.read("dead_letters", spark=spark).select("table", "reason", "offset").collect()
        assert [tuple(dead_letter) for dead_letter in found] == [("shop.orders", "op-not-a-row", 1)]


def test_source_without_records_or_files_cannot_be_replayed(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(MemorySink(store=str(tmp_path)), spark, tmp_path)
    with pytest.raises(ConfigError, match="its records cannot be replayed from dead letters"):
        list(replay(stream._plan, spark))


@pytest.mark.nightly
def test_replay_into_files_keeps_the_rows_of_the_original_batch(tmp_path: Path, spark: SparkSession) -> None:
    write_files(tmp_path)
    files: dict[str, Any] = {
        "sinks": [pipelines.sink_block("files", tmp_path)],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
    }
    job(tmp_path, "decimal(5,2)", **files).run(spark)
    wide = job(tmp_path, "decimal(9,2)", **files)
    list(replay(wide.plan, spark))
    assert [lsn for lsn, _ in rows(wide, spark)] == [5, 10, 11, 12, 13]


@pytest.mark.nightly
def test_interrupted_replay_continues_with_its_own_selection(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"bronze/{TOPIC}/{TOPIC}+0+0.json"
    write_lines(file, [price_event(1, 1234.5, lsn=10), {**price_event(2, 1.5, lsn=11), "op": None}])
    job(tmp_path, "decimal(5,2)").run(spark)
    wide = job(tmp_path, "decimal(9,2)")
    write_lines(file, [price_event(1, 1234.5, lsn=10), price_event(2, 1.5, lsn=11)])
    # The process is killed after the table is written: before and after the other dead letter is back in its store.
    for owner, step in ((DeadLetterFiles, "restore"), (ReplayQueue, "remove")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, lambda *_: pytest.fail("killed"))
            with pytest.raises(BaseException, match="killed"):
                list(replay(wide.plan, spark, reason="undecodable"))
        assert len(read_dead_letters(wide, spark)) == 2
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 1, 0), ReplayResult("shop.orders", 1, 0)]
    assert rows(wide, spark) == [(10, "1234.50"), (11, "1.50")]
    with pytest.raises(ConfigError, match="there are no dead letters"):
        wide.read("dead_letters", spark=spark)


@pytest.mark.nightly
def test_table_that_fails_does_not_block_the_replay_of_others(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("orders", "returns")
    for name in names:
        topic = f"shop.{name}"
        write_lines(tmp_path / f"bronze/{topic}/{topic}+0+0.json", [price_event(1, 1234.5, lsn=10)])

    def pipeline(price: str) -> Pipeline:
        rules = [{"source": f"shop.{name}", "key": ["id"], "columns": {"price": price}} for name in names]
        return job(tmp_path, price, tables=rules)

    pipeline("decimal(5,2)").run(spark)
    write, done = TableWriter.write_table, list[ReplayResult]()

    def fail(writer: TableWriter, target: Target, *arguments: Any) -> Any:
        if target.name == "shop.orders":
            raise ConfigError("the disk is full")
        return write(writer, target, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(TableWriter, "write_table", fail)
        with pytest.raises(ConfigError, match="the disk is full"):
            done.extend(replay(pipeline("decimal(9,2)").plan, spark))
        assert done == [ReplayResult("shop.returns", 1, 0)]
    assert list(replay(pipeline("decimal(9,2)").plan, spark, table="shop.returns")) == [
        ReplayResult("shop.orders", 1, 0)
    ]
