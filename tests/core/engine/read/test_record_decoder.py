"""Records on their way to events, by formats that need no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.support.ranged import TOPIC, LinesSource, pipeline
from tests.support.records import record, topics_of

from headrace.engine.read.record_decoder import RecordDecoder
from headrace.errors import DataError
from headrace.progress.model import BatchProgress
from headrace.sdk.format import Format, NoSchemaError, RecordReader
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.sink import Table
from headrace.sdk.source import SourceContext
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat

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


def spoken(spark: SparkSession, *records: dict[str, Any]) -> DataFrame:
    """The events of records of one topic, as JSON has them."""
    context = SourceContext(spark, SchemaLog())
    (events,) = RecordDecoder(JsonFormat()).decode(context, topics_of(spark, records))
    return events.load(spark, events.schema)


@pytest.mark.spark
@pytest.mark.steps
def test_the_offset_orders_places_and_no_two_partitions_share_one(spark: SparkSession) -> None:
    records = [record({"n": 2 * offset + p}, offset=offset) | {"partition": p} for offset in (15, 16) for p in (0, 1)]
    found = sorted((row["place"], row["value"]["n"]) for row in spoken(spark, *records).collect())
    assert [n for _, n in found] == [30, 31, 32, 33]
    assert len({place for place, _ in found}) == 4


class Learns(Format):
    """Adds to what is remembered of a topic what the batch of a thread has, as formats without schemas do."""

    name = "learns"
    api_version = 1

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self.barrier = barrier

    def open(self, spark: Any, frame: Any, column: str, subject: Subject, log: SchemaLog) -> RecordReader:
        known = log.get(subject) or StructType()
        with suppress(threading.BrokenBarrierError):  # the other thread may have to wait for its turn
            self.barrier.wait(1)
        schema = StructType([*known.fields, StructField(frame, LongType())])
        log.remember(subject, schema)
        return Reader(schema)


def test_two_that_open_a_topic_at_once_forget_nothing_of_each_other() -> None:
    nothing: Any = None
    log, format_ = SchemaLog(), Learns(threading.Barrier(2))
    context = SourceContext(nothing, log)

    def open_with(column: Any) -> None:
        RecordDecoder(format_).decode(context, {TOPIC: lambda session: column})

    with ThreadPoolExecutor(2) as pool:  # a batch, and a table that catches up
        list(pool.map(open_with, ("price", "size")))
    remembered = log.get(Subject(TOPIC, "value"))
    assert remembered is not None
    assert sorted(remembered.names) == ["price", "size"]


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
    assert isinstance(events.load(None, events.schema), Tombstones)  # the records as they came


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
