"""Records that are too large to be parsed: dead letters with their place and their beginning, and the others go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.memory_sink import MemorySink
from tests.support.ranged import TOPIC, LinesSource

from headrace import Pipeline
from headrace.config.settings import Settings
from headrace.engine.commands.replay import replay
from headrace.sdk.events import KEPT_BYTES
from headrace.sdk.sink import Table
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

LIMIT = 3000
SETTINGS = Settings.model_validate({"max.message.bytes": LIMIT})


def order(id_: int, size: int = 1) -> dict[str, Any]:
    return {"id": id_, "item": "x" * size}


def ids(sink: MemorySink, spark: SparkSession) -> list[int]:
    return sorted(row["id"] for row in sink.read_back(spark, Table(TOPIC)).collect())


def letters(pipeline: Pipeline, spark: SparkSession) -> list[Row]:
    return pipeline.read("dead_letters", spark=spark).collect()


def job(
    folder: Path, *values: dict[str, Any], key: Any = None, limit: int | None = None
) -> tuple[Pipeline, MemorySink]:
    with (folder / "lines").open("w") as lines:
        for number, value in enumerate(values, 1):
            said = {"line": number, "topic": TOPIC, "key": key or {"id": value["id"]}, "value": value}
            print(json.dumps(said), file=lines)
    sink = MemorySink(store=str(folder))
    source = LinesSource(path=str(folder / "lines"), limit=limit)
    pipeline = Pipeline("orders", source, [sink], str(folder / "checkpoint"), value=JsonFormat(), settings=SETTINGS)
    return pipeline, sink


def test_a_record_that_is_too_large_is_a_dead_letter_with_its_place_and_its_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline, sink = job(tmp_path, order(1), order(2, LIMIT), order(3))
    pipeline.run(spark)
    assert ids(sink, spark) == [1, 3]
    (letter,) = letters(pipeline, spark)
    assert (letter["reason"], letter["plugin"], letter["offset"]) == ("too-large", "headrace", 2)
    assert bytes(letter["value"]) == json.dumps(order(2, LIMIT), separators=(",", ":")).encode()[:KEPT_BYTES]
    assert bytes(letter["key"]) == b'{"id":2}'
    # What is kept of it is not the record.
    assert list(replay(pipeline.plan, spark)) == []
    assert [row["reason"] for row in letters(pipeline, spark)] == ["too-large"]


def test_a_topic_may_begin_with_one(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, sink = job(tmp_path, order(1, LIMIT), order(2), limit=1)
    pipeline.run(spark)
    assert ids(sink, spark) == [2]
    assert [row["offset"] for row in letters(pipeline, spark)] == [1]


def test_a_key_counts(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, _ = job(tmp_path, order(1), key={"id": 1, "x": "x" * LIMIT})
    pipeline.run(spark)
    (letter,) = letters(pipeline, spark)
    assert (letter["reason"], len(letter["key"])) == ("too-large", KEPT_BYTES)


def test_lines_of_files_likewise(spark: SparkSession, tmp_path: Path) -> None:
    for number, values in enumerate([[order(1, LIMIT)], [order(2), order(3, LIMIT), order(4)]]):
        write_lines(tmp_path / "bronze" / TOPIC / f"{TOPIC}+0+{number}.json", values)
    sink = MemorySink(store=str(tmp_path))
    source = FilesSource(path=str(tmp_path / "bronze"), format="json", maxFilesPerTrigger=1)
    rule = {"source": TOPIC, "key": ["id"]}
    pipeline = Pipeline("o", source, [sink], str(tmp_path / "checkpoint"), tables=[rule], settings=SETTINGS)
    pipeline.run(spark)
    assert ids(sink, spark) == [2, 4]
    assert sorted((row["reason"], row["offset"], len(row["value"])) for row in letters(pipeline, spark)) == [
        ("too-large", 0, KEPT_BYTES),
        ("too-large", 2, KEPT_BYTES),
    ]


def test_a_topic_whose_first_records_have_no_column_loses_none(spark: SparkSession, tmp_path: Path) -> None:
    """Their only names are such that no column can have them."""
    bad = {"": 1}
    write_lines(tmp_path / "bronze" / TOPIC / f"{TOPIC}+0+0.json", [{"_headrace_x": 1, **bad}])
    write_lines(tmp_path / "bronze" / TOPIC / f"{TOPIC}+0+1.json", [order(1)])
    sink = MemorySink(store=str(tmp_path))
    source = FilesSource(path=str(tmp_path / "bronze"), format="json", maxFilesPerTrigger=1)
    rule = {"source": TOPIC, "key": ["id"]}
    pipeline = Pipeline("o", source, [sink], str(tmp_path / "checkpoint"), tables=[rule])
    pipeline.run(spark)
    assert ids(sink, spark) == [1]
    assert [row["reason"] for row in letters(pipeline, spark)] == ["undecodable"]
