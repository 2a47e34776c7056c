"""Descriptions of fields that do not fit: the field, its type and no value, in every encoding of records."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.sql.types import StringType
from tests.support.records import make_topic_readers, record

from headrace.engine.read.record_decoder import RecordDecoder
from headrace.sdk.format import RecordReader
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions
from headrace_sources.formats.avro import AvroFormat
from headrace_sources.formats.json.embedded_schema import EmbeddedSchemaReader
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.kafka_connect.connect_schema import ConnectSchema
from headrace_sources.kafka_connect.misfits import take_newest
from headrace_sources.limits import DESCRIBED_FIELDS
from headrace_sources.registries.decoder import RegistryDecoder
from headrace_sources.registries.json_payload import JsonPayloadParser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

SECRET = "hunter2"
#: JSON number of which Spark computes a decimal for hours, and which it reads as an infinite double.
EXTREME = "1e400000000"
DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return Sessions(spark, {**AvroFormat.sql_conf, "spark.sql.session.timeZone": "UTC"}).of("misfits")


def row(**fields: Any) -> dict[str, Any]:
    """Return a schema block of Kafka Connect."""
    blocks = [{**({"type": kind} if isinstance(kind, str) else kind), "field": name} for name, kind in fields.items()]
    return {"type": "struct", "fields": blocks}


SCHEMA = row(
    id="int32",
    price={"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "6"}},
    at={"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    address=row(zip="int32", city="string"),
    tags={"type": "array", "items": {"type": "int32"}},
    rate="double",
    counts={"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
)
GOOD: dict[str, Any] = {"id": 1, "price": "MDk=", "at": "2026-01-02T03:04:05Z", "address": {"zip": 1, "city": "Brno"}}
#: Change of a record → the description. The first field that does not fit counts.
MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"id": SECRET}, "the field `id` does not fit its type int"),
    ({"id": 2**40}, "the field `id` does not fit its type int"),
    ({"price": "f////////w=="}, "the field `price` does not fit its type decimal(6,2)"),
    ({"price": EXTREME}, "the field `price` does not fit its type decimal(6,2)"),
    ({"rate": EXTREME}, "the field `rate` does not fit its type double"),
    ({"at": SECRET}, "the field `at` does not fit its type timestamp"),
    ({"address": {"zip": SECRET, "city": "x"}}, "the field `address.zip` does not fit its type int"),
    ({"address": SECRET}, "the field `address` does not fit its type struct"),
    ({"tags": [1, SECRET]}, "the field `tags` does not fit its type array<int>"),
    ({"counts": {"a": SECRET}}, "the field `counts` does not fit its type map<string,bigint>"),
    ({"address": {"zip": 1.5}, "tags": SECRET}, "the field `address.zip` does not fit its type int"),
]


def to_json(payload: Any) -> str:
    """Return JSON in which EXTREME is a number."""
    return json.dumps(payload).replace(f'"{EXTREME}"', EXTREME)


def locate(session: SparkSession, reader: RecordReader, records: Sequence[bytes]) -> list[str | None]:
    """Return the descriptions of undecodable records."""
    frame = session.createDataFrame(list(enumerate(records)), "offset int, body binary")
    decoded = reader.decode(frame, "body", reader.schema, "error").orderBy("offset").collect()
    assert [found["error"] for found in decoded] == ["undecodable"] * len(records)
    located = reader.locate_errors(frame, "body", reader.schema)
    return [found["body"] for found in located.orderBy("offset").collect()]


def open_reader(session: SparkSession, decoder: Any, records: Sequence[bytes]) -> RecordReader:
    frame = session.createDataFrame([(body,) for body in records], "value binary")
    arguments = (frame, "value", Subject("orders", "value"), SchemaLog())
    if isinstance(decoder, RegistryDecoder):
        return decoder.open(*arguments)
    reader: RecordReader = decoder.open(session, *arguments)
    return reader


def test_json_with_schema(session: SparkSession) -> None:
    def encode(payload: Any) -> bytes:
        return f'{{"schema":{json.dumps(SCHEMA)},"payload":{to_json(payload)}}}'.encode()

    opened = open_reader(session, JsonFormat(), [encode(GOOD)])
    assert isinstance(opened, EmbeddedSchemaReader)
    reader = replace(opened, numeric=True)  # as after the first record with a misfit
    bad = [encode({**GOOD, **change}) for change, _ in MISFITS] + [b'{"id": 1}', encode(GOOD)[:-9]]
    bad.append(encode(GOOD).replace(b'"id"', b'"\xff"'))
    *found, not_utf8 = locate(session, reader, bad)
    assert not_utf8 == "the record is not UTF-8"
    assert found[:-2] == [description for _, description in MISFITS]
    assert found[-2] == "the record has no schema, or is not valid JSON"
    assert found[-1] == "the record is not valid JSON, or not a single JSON document"


def test_field_that_a_schema_spells_in_another_case(session: SparkSession) -> None:
    def encode(schema: Any, payload: Any) -> bytes:
        return f'{{"schema":{json.dumps(schema)},"payload":{json.dumps(payload)}}}'.encode()

    other = row(ID="int32", Address=row(Zip="int32"))
    records = [encode(row(id="int32", address=row(zip="int32")), {"id": 1}), encode(other, {"ID": 1})]
    reader = open_reader(session, JsonFormat(), records)
    assert reader.schema.simpleString() == "struct<id:int,address:struct<zip:int>>"
    assert locate(session, reader, [encode(other, {"ID": SECRET}), encode(other, {"Address": {"Zip": SECRET}})]) == [
        "the field `ID` does not fit its type int",
        "the field `Address.Zip` does not fit its type int",
    ]


def test_number_of_examined_columns_has_a_limit() -> None:
    def tree(columns: int) -> ConnectSchema:
        return ConnectSchema(fields={f"c{n}": ConnectSchema(StringType()) for n in range(columns)})

    sizes = [DESCRIBED_FIELDS, 1, DESCRIBED_FIELDS - 1]
    assert list(take_newest(sizes, tree)) == sizes[1:]
    assert list(take_newest([1, DESCRIBED_FIELDS + 1], tree)) == [DESCRIBED_FIELDS + 1]
    assert list(take_newest([], tree)) == []


@pytest.mark.nightly
def test_json_with_schema_in_a_registry(session: SparkSession) -> None:
    def encode(payload: Any) -> bytes:
        return b"\0\0\0\0\7" + to_json(payload).encode()

    schema = json.dumps({**SCHEMA, "optional": False})
    decoder = RegistryDecoder(JsonPayloadParser({}), lambda _: schema, id_kind="content")
    reader = open_reader(session, decoder, [encode(GOOD)])
    bad = [encode({**GOOD, **change}) for change, _ in MISFITS] + [encode(GOOD)[:-9], encode([1]), b"\0\0\0\0\7\xff"]
    bad.append(encode(GOOD).replace(b"Brno", rb"\ud800"))
    found = locate(session, reader, bad)
    assert found[:-4] == [description for _, description in MISFITS]
    assert found[-4:] == [
        "the record is not valid JSON, or not a single JSON document",
        "the record is not a JSON object",
        "the record is not UTF-8",
        "the record has an escape sequence for half of a surrogate pair, which is no character",
    ]


def test_json_without_schema(session: SparkSession) -> None:
    def after(**changed: Any) -> bytes:
        return json.dumps({"op": "c", "after": {"id": 1, "n": 2, "tags": [1], "it's": 1, **changed}}).encode()

    reader = open_reader(session, JsonFormat(), [after()] * 3)
    deep = b'{"a":' * 120 + b"1" + b"}" * 120
    bad = [
        after(n=SECRET),
        after(tags=[SECRET]),
        b"{cut",
        b"{} {}",
        b"[1]",
        deep,
        b'{"\xff": 1}',
        after().replace(b'"c"', rb'"c\ud800"'),
        after(**{"it's": SECRET}),
    ]
    assert locate(session, reader, bad) == [
        "the field `after.n` does not fit its type bigint",
        "the field `after.tags` does not fit its type array<bigint>",
        *["the record is not valid JSON, or not a single JSON document"] * 2,
        "the record is not a JSON object",
        "the record has more than 100 levels of objects and arrays",
        "the record is not UTF-8",
        "the record has an escape sequence for half of a surrogate pair, which is no character",
        None,
    ]


def test_avro(session: SparkSession, tmp_path: Any) -> None:
    fields = [
        {"name": "id", "type": "int"},
        {"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        {"name": "at", "type": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}},
    ]
    schema = {"type": "record", "name": "Row", "fields": fields}

    def encode(**values: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"id": 1, "day": 1, "at": "2026-01-02T03:04:05Z", **values})
        return out.getvalue()

    file = tmp_path / "row.avsc"
    file.write_text(json.dumps(schema))
    reader = open_reader(session, AvroFormat({"schema.file": str(file)}), [encode()])
    assert locate(session, reader, [encode(day=2**31 - 1), encode(at=SECRET), b"\1"]) == [
        "the field `day` does not fit its type date",
        "the field `at` does not fit its type timestamp",
        "the record does not match its schema file",
    ]


def test_record_keys(session: SparkSession) -> None:
    records = [
        record({"id": 1}, key={"id": 1}),
        record({"id": 2}, key={"id": 2}, offset=1),
        record({"id": 3}, key=b"{", offset=2),
        record(b"[]", key=b"{", offset=3),
    ]
    [events] = RecordDecoder(JsonFormat(), JsonFormat()).decode(
        SourceContext(session, SchemaLog()), make_topic_readers(session, records)
    )
    assert events.locate_errors is not None
    frame = events.load(session, events.schema)
    found = events.locate_errors(frame, events.schema).orderBy("offset").collect()
    assert [(row["error"], row["detail"]) for row in found] == [
        (None, None),
        (None, None),
        ("undecodable", "the record key is not valid JSON, or not a single JSON document"),
        ("undecodable", "the record is not a JSON object"),
    ]


def test_key_of_a_tombstone(session: SparkSession) -> None:
    """A tombstone with the body of old converters is not the error."""
    schema = row(id="int32")
    records = [
        record({"schema": schema, "payload": {"id": 1}}, key={"schema": schema, "payload": {"id": 1}}),
        record({"schema": None, "payload": None}, key={"schema": schema, "payload": {"id": SECRET}}, offset=1),
    ]
    [events] = RecordDecoder(JsonFormat(), JsonFormat()).decode(
        SourceContext(session, SchemaLog()), make_topic_readers(session, records)
    )
    assert events.locate_errors is not None
    frame = events.locate_errors(events.load(session, events.schema), events.schema)
    assert [row["detail"] for row in frame.orderBy("offset").collect()] == [
        None,
        "the record key's field `id` does not fit its type int",
    ]
