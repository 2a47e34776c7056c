"""Records that are too large to parse: dead letters with their offset and first bytes."""

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


def read_dead_letters(pipeline: Pipeline, spark: SparkSession) -> list[Row]:
    return pipeline.read("dead_letters", spark=spark).collect()


def job(
    folder: Path, *values: dict[str, Any], key: Any = None, limit: int | None = None
) -> tuple[Pipeline, MemorySink]:
    with (folder / "lines").open("w") as lines:
        for number, value in enumerate(values, 1):
            line = {"line": number, "topic": TOPIC, "key": key or {"id": value["id"]}, "value": value}
            print(json.dumps(line), file=lines)
    sink = MemorySink(store=str(folder))
    source = LinesSource(path=str(folder / "lines"), limit=limit)
    pipeline = Pipeline("orders", source, [sink], str(folder / "checkpoint"), value=JsonFormat(), settings=SETTINGS)
    return pipeline, sink


def test_too_large_record_is_a_dead_letter_with_offset_and_first_bytes(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, sink = job(tmp_path, order(1), order(2, LIMIT), order(3))
    pipeline.run(spark)
    assert ids(sink, spark) == [1, 3]
    (dead_letter,) = read_dead_letters(pipeline, spark)
    assert (dead_letter["reason"], dead_letter["plugin"], dead_letter["offset"]) == ("too-large", "headrace", 2)
    assert bytes(dead_letter["value"]) == json.dumps(order(2, LIMIT), separators=(",", ":")).encode()[:KEPT_BYTES]
    assert bytes(dead_letter["key"]) == b'{"id":2}'
    # The kept bytes are not the complete record, so it is not replayed.
    (found,) = replay(pipeline.plan, spark)
    assert (found.replayed, found.incomplete) == (0, 1)
    assert [row["reason"] for row in read_dead_letters(pipeline, spark)] == ["too-large"]


@pytest.mark.nightly
def test_topic_starts_with_a_too_large_record(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, sink = job(tmp_path, order(1, LIMIT), order(2), limit=1)
    pipeline.run(spark)
    assert ids(sink, spark) == [2]
    assert [row["offset"] for row in read_dead_letters(pipeline, spark)] == [1]


def test_too_large_key(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, _ = job(tmp_path, order(1), key={"id": 1, "x": "x" * LIMIT})
    pipeline.run(spark)
    (dead_letter,) = read_dead_letters(pipeline, spark)
    assert (dead_letter["reason"], len(dead_letter["key"])) == ("too-large", KEPT_BYTES)


def test_too_large_lines_of_files(spark: SparkSession, tmp_path: Path) -> None:
    for number, values in enumerate([[order(1, LIMIT)], [order(2), order(3, LIMIT), order(4)]]):
        write_lines(tmp_path / "bronze" / TOPIC / f"{TOPIC}+0+{number}.json", values)
    sink = MemorySink(store=str(tmp_path))
    source = FilesSource(path=str(tmp_path / "bronze"), format="json", maxFilesPerTrigger=1)
    rule = {"source": TOPIC, "key": ["id"]}
    pipeline = Pipeline("o", source, [sink], str(tmp_path / "checkpoint"), tables=[rule], settings=SETTINGS)
    pipeline.run(spark)
    assert ids(sink, spark) == [2, 4]
    assert sorted((row["reason"], row["offset"], len(row["value"])) for row in read_dead_letters(pipeline, spark)) == [
        ("too-large", 0, KEPT_BYTES),
        ("too-large", 2, KEPT_BYTES),
    ]


def test_topic_whose_first_record_has_no_column(spark: SparkSession, tmp_path: Path) -> None:
    """The first records have only field names that cannot become columns."""
    bad = {"": 1}
    write_lines(tmp_path / "bronze" / TOPIC / f"{TOPIC}+0+0.json", [{"_headrace_x": 1, **bad}])
    write_lines(tmp_path / "bronze" / TOPIC / f"{TOPIC}+0+1.json", [order(1)])
    sink = MemorySink(store=str(tmp_path))
    source = FilesSource(path=str(tmp_path / "bronze"), format="json", maxFilesPerTrigger=1)
    rule = {"source": TOPIC, "key": ["id"]}
    pipeline = Pipeline("o", source, [sink], str(tmp_path / "checkpoint"), tables=[rule])
    pipeline.run(spark)
    assert ids(sink, spark) == [1]
    assert [row["reason"] for row in read_dead_letters(pipeline, spark)] == ["field-name"]
