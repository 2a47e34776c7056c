"""Records on their way to events, by formats that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.support.ranged import TOPIC, LinesSource, pipeline

from headrace.engine.decode import RecordDecoder
from headrace.errors import DataError
from headrace.progress.model import BatchProgress
from headrace.sdk.format import Format, NoSchemaError, RecordReader
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.sink import Table
from headrace.sdk.source import SourceContext
from headrace_sinks.files import FilesSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = StructType([StructField("id", LongType())])


class Reader(RecordReader):
    def __init__(self, schema: StructType) -> None:
        self.schema = schema

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        raise AssertionError("nothing is loaded here")


class Played(Format):
    """A format that has a schema for each subject, or an error."""

    name = "played"
    api_version = 1

    def __init__(self, answers: Mapping[str, StructType | Exception]) -> None:
        super().__init__()
        self.answers, self.asked = answers, list[str]()

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        self.asked.append(f"{subject} in {column}")
        answer = self.answers[subject.topic]
        if isinstance(answer, Exception):
            raise answer
        return Reader(answer)


class Tombstones:
    """A frame of records without a value."""

    def where(self, condition: str) -> Tombstones:
        assert condition == "value IS NOT NULL"
        return self

    def isEmpty(self) -> bool:  # noqa: N802 - Spark's name
        return True


def decode(decoder: RecordDecoder, *topics: str, apart: bool = False) -> list[Any]:
    nothing: Any = None
    tombstones: Any = Tombstones()
    context = SourceContext(nothing, SchemaLog())
    return decoder.decode(context, dict.fromkeys(topics, lambda session: tombstones), apart=apart)


def no_schema(names: Collection[str] | None) -> NoSchemaError:
    return NoSchemaError("none has a schema", where="topic beats", fix="look", names=names)


def heartbeats(topic: str, schema: StructType) -> str | None:
    return "heartbeats" if topic == "beats" and schema.names == ["ts_ms"] else None


def test_each_part_of_each_topic_is_opened() -> None:
    value, key = Played({"a": ROW, "b": ROW}), Played({"a": ROW, "b": StructType([])})
    a, b = decode(RecordDecoder(value, key), "a", "b")
    assert (a.topic, a.schema, a.key_schema) == ("a", ROW, ROW)
    assert (b.topic, b.schema, b.key_schema) == ("b", ROW, StructType([]))
    assert sorted(value.asked + key.asked) == ["a-key in key", "a-value in value", "b-key in key", "b-value in value"]


def test_tombstones_alone_are_no_topic_yet() -> None:
    assert decode(RecordDecoder(Played({"a": StructType([])})), "a") == []


def test_a_topic_without_a_schema_that_a_dialect_knows() -> None:
    decoder = RecordDecoder(Played({"beats": no_schema(("ts_ms",))}), metadata_topic=heartbeats)
    [events] = decode(decoder, "beats")
    assert (events.schema.names, events.error) == (["ts_ms"], None)
    with pytest.raises(NoSchemaError):
        events.load(None, events.schema)


@pytest.mark.parametrize("names", [None, (), ("id",)])
def test_a_topic_without_a_schema_that_no_dialect_knows(names: Collection[str] | None) -> None:
    decoder = RecordDecoder(Played({"beats": no_schema(names), "a": ROW}), metadata_topic=heartbeats)
    with pytest.raises(DataError, match="topic beats: none has a schema"):
        decode(decoder, "beats", "a")
    beats, a = decode(decoder, "beats", "a", apart=True)
    assert isinstance(beats.error, NoSchemaError)
    assert (a.schema, a.error) == (ROW, None)


@pytest.mark.spark
@pytest.mark.one_spark
def test_a_batch_is_planned_again_with_a_schema_that_comes_later(spark: SparkSession, tmp_path: Path) -> None:
    """Records bring their schemas. The third batch's is not among those that it was planned with."""
    fields = {"id": "int64", "item": "string", "city": "string"}
    rows = [{"id": 1, "item": "a"}, {"id": 2, "item": "b"}, {"id": 3, "item": "c", "city": "Ulm"}]
    with (tmp_path / "lines").open("w") as lines:
        for number, row in enumerate(rows, 1):
            schema = {"type": "struct", "fields": [{"field": name, "type": fields[name]} for name in row]}
            value = {"schema": schema, "payload": row}
            print(json.dumps({"line": number, "topic": TOPIC, "key": {"id": row["id"]}, "value": value}), file=lines)
    sink = FilesSink(path=str(tmp_path / "out"), format="json")
    source = LinesSource(path=str(tmp_path / "lines"), limit=1)
    progress: list[BatchProgress] = []
    pipeline(source, [sink], tmp_path / "checkpoint").run(spark, on_progress=progress.append)
    assert [[table.error for table in batch.tables] for batch in progress] == [[None]] * 3
    found = sink.read_back(spark, Table(TOPIC)).orderBy("id").select("id", "item", "city")
    assert [tuple(row) for row in found.collect()] == [(1, "a", None), (2, "b", None), (3, "c", "Ulm")]
