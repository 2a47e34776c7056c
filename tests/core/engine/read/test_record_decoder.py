"""Decoding of records to events, mostly by formats that need no Spark."""

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
from tests.support.records import make_topic_readers, record

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


class FixedFormat(Format):
    """Format that returns a predefined schema or error for each topic."""

    name = "played"
    api_version = 1

    def __init__(self, results: Mapping[str, StructType | Exception]) -> None:
        super().__init__()
        self.results, self.opened = results, list[str]()

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        self.opened.append(f"{subject} in {column}")
        result = self.results[subject.topic]
        if isinstance(result, Exception):
            raise result
        return Reader(result)


def decode_json(spark: SparkSession, *records: dict[str, Any]) -> DataFrame:
    """Decode records of one topic as JSON and return the events."""
    context = SourceContext(spark, SchemaLog())
    (events,) = RecordDecoder(JsonFormat()).decode(context, make_topic_readers(spark, records))
    return events.load(spark, events.schema)


@pytest.mark.spark
@pytest.mark.steps
def test_locations_sort_by_offset_and_are_unique_per_partition(spark: SparkSession) -> None:
    records = [record({"n": 2 * offset + p}, offset=offset) | {"partition": p} for offset in (15, 16) for p in (0, 1)]
    found = sorted((row["place"], row["value"]["n"]) for row in decode_json(spark, *records).collect())
    assert [n for _, n in found] == [30, 31, 32, 33]
    assert len({place for place, _ in found}) == 4


class InferringFormat(Format):
    """Format without schemas, which adds the column of each batch to the remembered schema."""

    name = "learns"
    api_version = 1

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self.barrier = barrier

    def open(self, spark: Any, frame: Any, column: str, subject: Subject, log: SchemaLog) -> RecordReader:
        known = log.get(subject) or StructType()
        with suppress(threading.BrokenBarrierError):  # the other thread may be blocked until this one finishes
            self.barrier.wait(1)
        schema = StructType([*known.fields, StructField(frame, LongType())])
        log.remember(subject, schema)
        return Reader(schema)


def test_concurrent_opens_of_a_topic_keep_the_columns_of_both() -> None:
    nothing: Any = None
    log, format_ = SchemaLog(), InferringFormat(threading.Barrier(2))
    context = SourceContext(nothing, log)

    def open_with(column: Any) -> None:
        RecordDecoder(format_).decode(context, {TOPIC: lambda session: column})

    with ThreadPoolExecutor(2) as pool:  # the threads represent a batch and a table that catches up
        list(pool.map(open_with, ("price", "size")))
    remembered = log.get(Subject(TOPIC, "value"))
    assert remembered is not None
    assert sorted(remembered.names) == ["price", "size"]


class Tombstones:
    """DataFrame of records without a value."""

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


def test_key_and_value_of_each_topic_are_opened() -> None:
    value, key = FixedFormat({"a": ROW, "b": ROW}), FixedFormat({"a": ROW, "b": StructType([])})
    a, b = decode(RecordDecoder(value, key), "a", "b")
    assert (a.topic, a.schema, a.key_schema) == ("a", ROW, ROW)
    assert (b.topic, b.schema, b.key_schema) == ("b", ROW, StructType([]))
    assert sorted(value.opened + key.opened) == ["a-key in key", "a-value in value", "b-key in key", "b-value in value"]


def test_topic_with_only_tombstones_is_not_opened() -> None:
    assert decode(RecordDecoder(FixedFormat({"a": StructType([])})), "a") == []


def test_topic_without_a_schema_may_be_matched_by_a_dialect() -> None:
    decoder = RecordDecoder(FixedFormat({"beats": no_schema(("ts_ms",))}), metadata_topic=heartbeats)
    [events] = decode(decoder, "beats")
    assert (events.schema.names, events.error) == (["ts_ms"], None)
    assert isinstance(events.load(None, events.schema), Tombstones)  # the records are unchanged


@pytest.mark.parametrize("names", [None, (), ("id",)])
def test_topic_without_a_schema_or_dialect_is_reported(names: Collection[str] | None) -> None:
    decoder = RecordDecoder(FixedFormat({"beats": no_schema(names), "a": ROW}), metadata_topic=heartbeats)
    with pytest.raises(DataError, match="topic beats: none has a schema"):
        decode(decoder, "beats", "a")
    beats, a = decode(decoder, "beats", "a", apart=True)
    assert isinstance(beats.error, NoSchemaError)
    assert (a.schema, a.error) == (ROW, None)


@pytest.mark.spark
@pytest.mark.one_spark
def test_batch_is_planned_again_if_it_contains_an_unknown_schema(spark: SparkSession, tmp_path: Path) -> None:
    """Each record contains its schema. The schema of the third batch is unknown when the batch is planned."""
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
