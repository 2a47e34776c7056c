"""Dead letters that came from files: what is replayed is their records alone, read from the files once more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.memory_sink import MemorySink

from headrace import Pipeline
from headrace.engine.commands.replay import ReplayResult, replay
from headrace.errors import ConfigError
from headrace.testing._internal.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.orders"
#: Lines that no column's type makes rows of.
NEVER = (b"{cut", b"\xff", b"null")


def price_event(number: int, price: Any, *, lsn: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "lsn": lsn}
    return {"before": None, "after": {"id": number, "price": price, "lsn": lsn}, "source": source, "op": "c"}


def job(folder: Path, price: str, **changed: Any) -> Pipeline:
    """Prices of that type, every change appended: what is applied twice shows."""
    config = {
        "source": {"files": {"path": str(folder / "bronze"), "format": "json"}},
        "tables": [{"source": TOPIC, "target": "shop.orders", "key": ["id"], "columns": {"price": price}}],
        "sinks": [pipelines.sink_block("iceberg", folder, mode="changelog")],
    }
    return pipelines.pipeline(folder, **{**config, **changed})


def rows(pipeline: Pipeline, spark: SparkSession) -> list[tuple[int, str]]:
    found = pipeline.read("shop.orders", spark=spark).select("lsn", "price").collect()
    return sorted((row["lsn"], str(row["price"])) for row in found)


def letters(pipeline: Pipeline, spark: SparkSession) -> list[tuple[str, int, bytes, Any]]:
    """File, offset, bytes and time of each."""
    found = pipeline.read("dead_letters", spark=spark).collect()
    return sorted((row["file"].rsplit("/", 1)[-1], row["offset"], bytes(row["value"]), row["seen"]) for row in found)


def deliver(folder: Path) -> tuple[Path, Path]:
    """Two files, one whose name tells its first offset."""
    numbered, plain = folder / f"bronze/{TOPIC}/{TOPIC}+0+100.json", folder / f"bronze/{TOPIC}/müll [1].json"
    write_lines(
        numbered,
        [b"null", price_event(1, 1.5, lsn=10), price_event(2, 1234.5, lsn=11), b"{cut", price_event(1, 1234.5, lsn=5)],
    )
    write_lines(plain, [price_event(3, 2.5, lsn=12), price_event(4, 9876.5, lsn=13), b"null", b"\xff"])
    return numbered, plain


@pytest.mark.parametrize("kept", [{}, {"dead.letters.table": "ops.dead_letters"}], ids=["files", "table"])
def test_they_are_replayed_once(tmp_path: Path, spark: SparkSession, kept: dict[str, str]) -> None:
    deliver(tmp_path)
    narrow, wide = job(tmp_path, "decimal(5,2)", **kept), job(tmp_path, "decimal(9,2)", **kept)
    narrow.run(spark)
    assert rows(narrow, spark) == [(10, "1.50"), (12, "2.50")]
    before = letters(narrow, spark)
    assert len(before) == 7
    assert (f"{TOPIC}+0+100.json", 103, b"{cut") in [letter[:3] for letter in before]
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 7, 4)]
    every = [(5, "1234.50"), (10, "1.50"), (11, "1234.50"), (12, "2.50"), (13, "9876.50")]
    assert rows(wide, spark) == every
    # With the place and the time that they had.
    assert letters(wide, spark) == [letter for letter in before if letter[2] in NEVER]
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 4, 4)]
    assert rows(wide, spark) == every
    assert len(letters(wide, spark)) == 4


def test_a_repaired_file(tmp_path: Path, spark: SparkSession) -> None:
    numbered, _ = deliver(tmp_path)
    pipeline = job(tmp_path, "decimal(9,2)")
    pipeline.run(spark)
    numbered.write_bytes(numbered.read_bytes().replace(b"{cut", json.dumps(price_event(5, 3.5, lsn=14)).encode()))
    assert list(replay(pipeline.plan, spark)) == [ReplayResult("shop.orders", 4, 3)]
    assert (14, "3.50") in rows(pipeline, spark)


def test_files_that_are_gone_or_shorter(tmp_path: Path, spark: SparkSession) -> None:
    numbered, plain = deliver(tmp_path)
    narrow, wide = job(tmp_path, "decimal(5,2)"), job(tmp_path, "decimal(9,2)")
    narrow.run(spark)
    before = letters(narrow, spark)
    whole = plain.read_bytes()
    plain.write_bytes(whole.splitlines(keepends=True)[0])
    shutil.move(numbered, tmp_path)
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 0, 0, 7)]
    assert letters(wide, spark) == before
    plain.write_bytes(whole)
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 3, 2), ReplayResult("shop.orders", 0, 0, 4)]
    assert rows(wide, spark) == [(10, "1.50"), (12, "2.50"), (13, "9876.50")]
    shutil.move(tmp_path / numbered.name, numbered)
    assert list(replay(wide.plan, spark)) == [ReplayResult("shop.orders", 2, 2), ReplayResult("shop.orders", 4, 2)]
    assert [(file, offset) for file, offset, *_ in letters(wide, spark)] == [
        (file, offset) for file, offset, value, _ in before if value in NEVER
    ]


def test_a_source_that_has_neither_records_nor_files(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(MemorySink(store=str(tmp_path)), spark, tmp_path)
    with pytest.raises(ConfigError, match="its records cannot be replayed from dead letters"):
        list(replay(stream._plan, spark))


def test_a_replay_into_files_keeps_the_good_rows_of_its_batch(tmp_path: Path, spark: SparkSession) -> None:
    deliver(tmp_path)
    files: dict[str, Any] = {
        "sinks": [pipelines.sink_block("files", tmp_path)],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
    }
    job(tmp_path, "decimal(5,2)", **files).run(spark)
    wide = job(tmp_path, "decimal(9,2)", **files)
    list(replay(wide.plan, spark))
    assert [lsn for lsn, _ in rows(wide, spark)] == [5, 10, 11, 12, 13]
