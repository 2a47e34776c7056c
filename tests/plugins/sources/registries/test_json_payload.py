"""JSON whose schema is in a registry. A fake registry serves the schemas.

The records of Apicurio's converter equal those of a real one, and a live test reads them again. Confluent's converter cannot
be installed in tests, so its schemas are built as its published source (JsonSchemaData) builds them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.plugins.sources.formats.test_avro_records import KAFKA, FakeRegistry, fake_registry, start_fake_registry
from tests.support.tiers import nightly_after

from headrace.engine.read.record_decoder import RecordDecoder, Records
from headrace.errors import ConfigError, DataError, RetriableError
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions, move_to_session
from headrace.spark.storage import Folder
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.kafka_connect.connect_schema import parse_connect_schema
from headrace_sources.kafka_connect.connect_types import table_type
from headrace_sources.limits import SCHEMA_LEVELS
from headrace_sources.registries.connect_json_schema import to_connect_block
from headrace_sources.registries.json_payload import JsonPayloadParser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["fake_registry"]
pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

SAMPLES = Path(__file__).parents[3] / "data/debezium"
DECIMAL = "org.apache.kafka.connect.data.Decimal"
Block = dict[str, Any]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return Sessions(spark, {"spark.sql.session.timeZone": "UTC"}).of("registered-json")


# Record formats


def confluent_schema(schema: Block) -> dict[str, Any]:
    """Return Kafka Connect's schema as JsonSchemaData.fromConnectSchema writes it."""
    kind: str = schema["type"]
    name, parameters = schema.get("name"), schema.get("parameters")
    result: dict[str, Any]
    if kind == "struct":
        result = {"type": "object", "properties": {}}
        for i, field in enumerate(schema["fields"]):
            result["properties"][field["field"]] = {**confluent_schema(field), "connect.index": i}
        result["properties"] = dict(
            sorted(result["properties"].items())
        )  # the original is a HashMap, which has no order
    elif kind == "array":
        result = {"type": "array", "items": confluent_schema(schema["items"])}
    elif kind == "map" and schema["keys"] == {"type": "string", "optional": False}:
        result = {"type": "object", "connect.type": "map", "additionalProperties": confluent_schema(schema["values"])}
    elif kind == "map":
        pair = {"key": {**confluent_schema(schema["keys"]), "connect.index": 0}}
        pair["value"] = {**confluent_schema(schema["values"]), "connect.index": 1}
        result = {"type": "array", "connect.type": "map", "items": {"type": "object", "properties": pair}}
    elif kind in ("string", "boolean"):
        result = {"type": kind}
    elif kind == "bytes":
        result = {"type": "number" if name == DECIMAL else "string", "connect.type": "bytes"}
    else:
        wide = {"float": "float32", "double": "float64"}.get(kind, kind)
        result = {"type": "number" if wide.startswith("float") else "integer", "connect.type": wide}
    annotations = {"title": name, "connect.version": schema.get("version"), "connect.parameters": parameters}
    result |= {key: value for key, value in annotations.items() if value is not None}
    return {"oneOf": [{"type": "null"}, result]} if schema.get("optional") else result


class Wire:
    """Framing of records by a converter, and registration of its schemas."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.interface = "" if name == "confluent" else "/apis/registry/v2"

    def register(self, fake_registry: FakeRegistry, number: int, schema: Block) -> None:
        if self.name == "confluent":
            answer = {"schema": json.dumps(confluent_schema(schema)), "schemaType": "JSON"}
            fake_registry.answers[f"/schemas/ids/{number}"] = answer
        else:
            fake_registry.answers[f"/apis/registry/v2/ids/globalIds/{number}"] = schema
            fake_registry.answers[f"/apis/registry/v2/ids/globalIds/{number}/references"] = []

    def frame(self, number: int, payload: bytes) -> bytes:
        if self.name == "pretty":
            return b'{"schemaId":%d,"payload":%s}' % (number, payload)
        return b"\0" + number.to_bytes(4 if self.name == "confluent" else 8, "big") + payload


WIRES = [Wire("confluent"), Wire("compact"), Wire("pretty")]
each_wire = pytest.mark.parametrize("wire", nightly_after(1, WIRES), ids=lambda wire: wire.name)


def block(kind: str, **more: Any) -> Block:
    return {"type": kind, "optional": True, **more}


def decimal(precision: int, scale: int) -> Block:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return block("bytes", name=DECIMAL, version=1, parameters=parameters)


def struct(**fields: Block) -> Block:
    named = [{**inner, "field": name} for name, inner in fields.items()]
    return {"type": "struct", "optional": False, "name": "shop.Value", "fields": named}


ROW = struct(id=block("int32", optional=False), name=block("string"))


def topic(session: SparkSession, *records: bytes | None, keys: Sequence[bytes | None] = ()) -> dict[str, Records]:
    keys = keys or [None] * len(records)
    rows = [(key, value, "rows", 0, i, None) for i, (key, value) in enumerate(zip(keys, records, strict=True))]
    return {"rows": partial(move_to_session, session.createDataFrame(rows, KAFKA))}


class Reader:
    """Format with a schema log that persists across batches."""

    def __init__(self, session: SparkSession, registry: str, log: SchemaLog | None = None) -> None:
        self.session, self.log = session, log or SchemaLog()
        self.format = JsonFormat(registry=registry)

    def read(self, *records: bytes | None) -> list[Any]:
        """Return each record's row or error, or None. Plan again when the format requires it, as the engine does."""
        topics = topic(self.session, *records)
        self.attempts = 0
        while True:
            self.attempts += 1
            found = RecordDecoder(self.format).decode(SourceContext(self.session, self.log), topics)
            if not found:
                return []
            try:
                rows = found[0].load(self.session, found[0].schema).orderBy("offset").collect()
            except (PySparkException, Py4JJavaError) as error:
                explained = self.format.explain(error)
                if self.attempts > 3 or explained is None:
                    raise
                assert isinstance(explained, UnknownSchemaError)
                self.log.note_unknown(explained.schemas)
                continue
            return [row["error"] or (row["value"] and row["value"].asDict(recursive=True)) for row in rows]


# Rows


ALL_TYPES = json.loads((SAMPLES / "pg_schema.json").read_text())
#: Schema number and payload of each record.
PAYLOADS: list[tuple[int, str]] = [
    (record["value"][0], record["value"][1])
    for record in ALL_TYPES["records"]
    if record["topic"].endswith(".all_types") and record["value"]
]


def decode_rows(session: SparkSession, json_format: JsonFormat, records: Sequence[bytes]) -> tuple[str, list[str]]:
    """Return the schema of the values, and each row with its error as a string, because NaN equals nothing."""
    context = SourceContext(session, SchemaLog())
    [events] = RecordDecoder(json_format).decode(context, topic(session, *records))
    table = events.load(session, events.schema).orderBy("offset").select("value", "error")
    return events.schema.simpleString(), [str(row) for row in table.collect()]


@pytest.fixture(scope="module")
def embedded(session: SparkSession) -> tuple[str, list[str]]:
    """Return schema and rows of the payloads in JsonConverter's envelope."""
    schemas = [schema.encode() for schema in ALL_TYPES["schemas"]]
    own = [b'{"schema":%s,"payload":%s}' % (schemas[n], body.encode()) for n, body in PAYLOADS]
    return decode_rows(session, JsonFormat(), own)


@each_wire
def test_types_equal_those_of_embedded_schemas(
    session: SparkSession, fake_registry: FakeRegistry, embedded: tuple[str, list[str]], wire: Wire
) -> None:
    """Compare payloads of a real connector with the same payloads in JsonConverter's envelope."""
    for number, schema in enumerate(ALL_TYPES["schemas"], 1):
        wire.register(fake_registry, number, json.loads(schema))
    framed = [wire.frame(n + 1, body.encode()) for n, body in PAYLOADS]
    schema, rows = decode_rows(session, JsonFormat(registry=fake_registry.url + wire.interface), framed)
    wanted_schema, wanted_rows = embedded
    assert schema == wanted_schema
    assert rows == wanted_rows
    assert len(rows) == len(PAYLOADS) > 3
    assert "'c_text'" not in rows[0], "a row is printed by its cells"
    assert all("error=None" in row for row in rows)


@each_wire
def test_many_schemas_in_one_batch(session: SparkSession, fake_registry: FakeRegistry, wire: Wire) -> None:
    wire.register(fake_registry, 7, ROW)
    wire.register(fake_registry, 300, struct(id=block("int64", optional=False), price=decimal(9, 2)))
    reader = Reader(session, fake_registry.url + wire.interface)
    assert reader.read(
        wire.frame(7, b'{"id":1,"name":"\xc3\xa9"}'),
        wire.frame(300, b'{"id":1099511627776,"price":"/w=="}'),
        wire.frame(300, b'{"id":2,"price":0.25}'),
        None,
    ) == [
        {"id": 1, "name": "é", "price": None},
        {"id": 2**40, "name": None, "price": Decimal("-0.01")},
        {"id": 2, "name": None, "price": Decimal("0.25")},
        None,
    ]


@pytest.mark.nightly
@each_wire
def test_schema_in_a_later_batch(
    session: SparkSession, fake_registry: FakeRegistry, wire: Wire, tmp_path: Path
) -> None:
    wire.register(fake_registry, 7, ROW)
    wire.register(fake_registry, 8, struct(id=block("int32"), name=block("string"), city=block("string")))
    reader = Reader(session, fake_registry.url + wire.interface, SchemaLog(Folder(session, str(tmp_path))))
    first, later = wire.frame(7, b'{"id":1,"name":"a"}'), wire.frame(8, b'{"id":2,"name":null,"city":"Ulm"}')
    assert reader.read(first) == [{"id": 1, "name": "a"}]
    wanted = [{"id": 1, "name": "a", "city": None}, {"id": 2, "name": None, "city": "Ulm"}]
    assert reader.read(first, later) == wanted
    assert reader.attempts == 2
    requests = [path for path, _ in fake_registry.requests]
    assert len(requests) == len(set(requests)), "each schema is asked for once"
    fake_registry.answers.clear()
    again = Reader(session, fake_registry.url + wire.interface, SchemaLog(Folder(session, str(tmp_path))))
    assert again.read(first, later) == wanted, "from the checkpoint"


def test_runs_of_one_format_are_independent(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """Both runs share the topic and the format object. Each has only the schemas of its own records."""
    WIRES[0].register(fake_registry, 7, ROW)
    WIRES[0].register(fake_registry, 8, struct(city=block("string")))
    decoder = RecordDecoder(JsonFormat(registry=fake_registry.url))
    logs = SchemaLog(), SchemaLog()
    records = WIRES[0].frame(7, b'{"id":1,"name":"a"}'), WIRES[0].frame(8, b'{"city":"Ulm"}')
    runs = zip(logs, records, strict=True)
    opened = [decoder.decode(SourceContext(session, log), topic(session, framed))[0] for log, framed in runs]
    rows = [events.load(session, events.schema).select("value.*").first() for events in opened]
    assert [row and row.asDict() for row in rows] == [{"id": 1, "name": "a"}, {"city": "Ulm"}]
    assert [list(log.writers(Subject("rows", "value"))) for log in logs] == [["7"], ["8"]]
    logs[0].note_unknown([(Subject("rows", "value"), "8")])
    opened = [
        decoder.decode(SourceContext(session, log), topic(session, framed))[0]
        for log, framed in zip(logs, records, strict=True)
    ]
    assert [events.schema.names for events in opened] == [["id", "name", "city"], ["city"]]


def test_heartbeats_among_records_with_ids(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """Another converter writes heartbeats, and the dialect detects them by their topic."""
    decoder = RecordDecoder(JsonFormat(registry=fake_registry.url), metadata_topic=DebeziumDialect().metadata_topic)
    [records] = topic(session, b'{"ts_ms":1}').values()
    [events] = decoder.decode(SourceContext(session, SchemaLog()), {"__debezium-heartbeat.shop": records})
    assert events.schema.names == ["ts_ms"]
    with pytest.raises(DataError, match="none of the records starts with a schema id"):
        decoder.decode(SourceContext(session, SchemaLog()), {"shop": records})


@each_wire
def test_null_values(session: SparkSession, fake_registry: FakeRegistry, wire: Wire) -> None:
    """Null values: Kafka's tombstones, and null payloads that still have a schema id."""
    wire.register(fake_registry, 7, ROW)
    reader = Reader(session, fake_registry.url + wire.interface)
    good = wire.frame(7, b'{"id":1,"name":null}')
    assert reader.read(None, good, wire.frame(7, b"null")) == [None, {"id": 1, "name": None}, None]
    assert Reader(session, fake_registry.url + wire.interface).read(None, None) == []


@each_wire
def test_keys(session: SparkSession, fake_registry: FakeRegistry, wire: Wire) -> None:
    wire.register(fake_registry, 7, ROW)
    wire.register(fake_registry, 8, struct(id=block("int32", optional=False)))
    wire.register(fake_registry, 9, block("int64", optional=False))
    json_format = JsonFormat(registry=fake_registry.url + wire.interface)
    value = wire.frame(7, b'{"id":1,"name":"a"}')
    topics = topic(session, value, None, keys=[wire.frame(8, b'{"id":1}')] * 2)
    [events] = RecordDecoder(json_format, json_format).decode(SourceContext(session, SchemaLog()), topics)
    rows = events.load(session, events.schema).orderBy("offset").collect()
    assert [(row["key"]["id"], row["value"] is None, row["error"]) for row in rows] == [
        (1, False, None),
        (1, True, None),
    ]
    topics = topic(session, value, keys=[wire.frame(9, b"1")])
    [events] = RecordDecoder(json_format, json_format).decode(SourceContext(session, SchemaLog()), topics)
    assert events.key_schema is not None
    assert events.key_schema.fields == [], "a value without a name is not a column"


SMALL = st.integers(-(2**31), 2**31 - 1)
CELLS: dict[str, tuple[Block, st.SearchStrategy[Any]]] = {
    "number": (block("int32"), SMALL),
    "word": (block("string"), st.text(st.characters(codec="utf-8"), max_size=5)),
    "flag": (block("boolean"), st.booleans()),
    "numbers": (block("array", items=block("int32")), st.lists(st.none() | SMALL, max_size=3)),
    "pair": (block("struct", fields=[{**block("string"), "field": "one"}]), st.fixed_dictionaries({"one": st.text()})),
    "words": (
        block("map", keys={"type": "string", "optional": False}, values=block("string")),
        st.dictionaries(st.text(min_size=1, max_size=3), st.none() | st.text(max_size=3), max_size=2),
    ),
}
COLUMNS = st.lists(st.sampled_from(sorted(CELLS)), min_size=1, unique=True)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[str]], list[tuple[int, dict[str, Any]]]]:
    """Draw columns by version, and rows by the version that they were written with, in any order."""
    versions = draw(st.lists(COLUMNS, min_size=1, max_size=4))
    order = draw(st.lists(st.integers(0, len(versions) - 1), min_size=1, max_size=8))
    return versions, [(i, {name: draw(st.none() | CELLS[name][1]) for name in versions[i]}) for i in order]


@pytest.mark.nightly
@settings(max_examples=4, deadline=None)
@given(history=histories(), wire=st.sampled_from(WIRES))
def test_any_schemas_in_any_order(
    session: SparkSession, history: tuple[list[list[str]], list[tuple[int, dict[str, Any]]]], wire: Wire
) -> None:
    versions, rows = history
    log = SchemaLog()  # holds the schemas that a registry would return
    reader = Reader(session, f"http://{wire.name}{wire.interface}", log)
    for number, columns in enumerate(versions, 1):
        schema = struct(**{name: CELLS[name][0] for name in columns})
        text = json.dumps(confluent_schema(schema) if wire.name == "confluent" else schema)
        log.add_writer(Subject("rows", "value"), f"globalId/{number}" if wire.name == "pretty" else f"{number}", text)
    bodies = [json.dumps(row, ensure_ascii=False).encode() for _, row in rows]
    records = [wire.frame(i + 1, body) for (i, _), body in zip(rows, bodies, strict=True)]
    columns = list(dict.fromkeys(name for names in versions for name in names))
    assert reader.read(*records) == [{name: row.get(name) for name in columns} for _, row in rows]


# Dead letters

FULL = struct(
    id=block("int32", optional=False),
    name=block("string"),
    price=decimal(4, 2),
    at=block("string", name="io.debezium.time.ZonedTimestamp", version=1),
    raw=block("bytes"),
    many=block("array", items=block("int32")),
)
GOOD = b'{"id":1,"name":"a","price":"AQ==","at":null,"raw":"AP8=","many":[1,null]}'
BAD = {
    "a number for a text": GOOD.replace(b'"id":1', b'"id":"1"'),
    "a number with a point": GOOD.replace(b'"id":1', b'"id":1.0'),
    "a number that is too large": GOOD.replace(b'"id":1', b'"id":2147483648'),
    "no base64": GOOD.replace(b"AP8=", b"A"),
    "an object for a list": GOOD.replace(b"[1,null]", b'{"1":1}'),
    "another type in a list": GOOD.replace(b"[1,null]", b'[1,"x"]'),
    "an invalid time": GOOD.replace(b'"at":null', b'"at":"yesterday"'),
    "decimals that are too long": GOOD.replace(b"AQ==", b"AAGGoA=="),
    "numbers that are too long": GOOD.replace(b'"AQ=="', b"100.00"),
    "numbers with more places": GOOD.replace(b'"AQ=="', b"0.125"),
    "a list": b"[" + GOOD + b"]",
    "a text": b'"text"',
    "a number": b"1",
    "nothing": b"",
    "spaces": b"  ",
    "one byte less": GOOD[:-1],
    "half of it": GOOD[:30],
    "two documents": GOOD + GOOD,
    "two lines": GOOD + b"\n" + GOOD,
    "a list of two": GOOD + b"," + GOOD,
    "and more": GOOD + b" and more",
    "one brace more": GOOD + b"}",
    "a field behind it": GOOD + b',"x":{}',
    "a list's end behind it": GOOD + b"]",
    "no UTF-8": GOOD.replace(b'"a"', b'"a\xff"'),
    "half a character": GOOD.replace(b'"a"', b'"\xe4\xb8"'),
    "half of a surrogate pair": GOOD.replace(b'"a"', rb'"a\ud83d"'),
    "no UTF-8 in a name": GOOD.replace(b'"id"', b'"\xff":1,"id"'),
}


@each_wire
def test_value_that_does_not_match_its_schema(session: SparkSession, fake_registry: FakeRegistry, wire: Wire) -> None:
    wire.register(fake_registry, 7, FULL)
    reader = Reader(session, fake_registry.url + wire.interface)
    found = reader.read(*[wire.frame(7, body) for body in (GOOD, *BAD.values(), GOOD)])
    row = {"id": 1, "name": "a", "price": Decimal("0.01"), "at": None, "raw": b"\0\xff", "many": [1, None]}
    assert dict(zip(BAD, found[1:-1], strict=True)) == dict.fromkeys(BAD, "undecodable")
    assert [{**row, **item, "raw": bytes(item["raw"])} for item in (found[0], found[-1])] == [row, row]


@each_wire
def test_valid_values_with_special_characters(session: SparkSession, fake_registry: FakeRegistry, wire: Wire) -> None:
    wire.register(fake_registry, 7, ROW)
    reader = Reader(session, fake_registry.url + wire.interface)
    texts = ["\ufffd", "😀中", '}{"', '"}, {"a":1', "],null]", ',"payload":{}', "null}", "\\u0000", "\t"]
    rows = [{"id": i, "name": text} for i, text in enumerate(texts)]
    dumped = [json.dumps(row, ensure_ascii=escaped).encode() for row in rows for escaped in (False, True)]
    spaced = json.dumps(rows[0], indent=2).encode()
    found = reader.read(*[wire.frame(7, body) for body in (*dumped, spaced)])
    assert found == [row for row in rows for _ in range(2)] + [rows[0]]


def test_string_accepts_any_json_and_fields_may_be_missing(session: SparkSession, fake_registry: FakeRegistry) -> None:
    WIRES[0].register(fake_registry, 7, ROW)
    bodies = b'{"id":1,"name":{"a":[1]}}', b'{"id":2,"name":5}', b'{"id":3}', b'{"id":4,"name":"a","more":1}'
    found = Reader(session, fake_registry.url).read(*[WIRES[0].frame(7, body) for body in bodies])
    assert [(row["id"], row["name"]) for row in found] == [(1, '{"a":[1]}'), (2, "5"), (3, None), (4, "a")]


def test_decimals_without_precision(session: SparkSession, fake_registry: FakeRegistry) -> None:
    money = block("bytes", name=DECIMAL, version=1, parameters={"scale": "2"})
    long = decimal(60, 10)
    WIRES[0].register(fake_registry, 7, struct(fee=money, total=long))
    bodies = b'{"fee":12.3,"total":-0.0000000001}', b'{"fee":1e40,"total":1}', b'{"fee":"BNI=","total":"AQ=="}'
    assert Reader(session, fake_registry.url).read(*[WIRES[0].frame(7, body) for body in bodies]) == [
        {"fee": Decimal("12.30"), "total": "-0.0000000001"},
        "undecodable",
        {"fee": Decimal("12.34"), "total": "0.0000000001"},
    ]


@pytest.fixture(scope="module")
def checkpoint_of_pretty_records(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return the schemas of a topic whose first batch had an id in every record."""
    wire, folder = Wire("pretty"), Folder(session, str(tmp_path_factory.mktemp("schemas")))
    with start_fake_registry() as server:
        wire.register(server, 7, ROW)
        reader = Reader(session, server.url + wire.interface, SchemaLog(folder))
        assert reader.read(wire.frame(7, b'{"id":1,"name":"a"}')) == [{"id": 1, "name": "a"}]
    return folder


@pytest.mark.parametrize(
    "late",
    nightly_after(
        3,
        [
            b"{}",
            b'{"id": 1}',
            b"\0\0\0\0\7",
            b'{"schemaId":7,"payload":{"id":1,"name":"a"}',
            b'{"schemaId":7,"payload":{"id":1,"name":"a"}]',
            b'{"schemaId":7,"payload":',
            b'{"schemaId":07,"payload":{}}',
            b"x",
        ],
    ),
)
def test_record_without_id_among_records_with_ids(
    session: SparkSession, checkpoint_of_pretty_records: Folder, late: bytes
) -> None:
    """Each record is a batch, because a record without an id changes the plan."""
    wire = Wire("pretty")
    # The checkpoint holds the schema, so no request is sent.
    reader = Reader(session, f"http://registry.invalid{wire.interface}", SchemaLog(checkpoint_of_pretty_records))
    assert reader.read(wire.frame(7, b'{"id":1,"name":"a"}'), late) == [{"id": 1, "name": "a"}, "undecodable"]


def test_record_without_row_among_rows(session: SparkSession, fake_registry: FakeRegistry) -> None:
    wire = Wire("confluent")
    wire.register(fake_registry, 7, ROW)
    wire.register(fake_registry, 8, block("int64", optional=False))
    found = Reader(session, fake_registry.url).read(wire.frame(7, b'{"id":1,"name":"a"}'), wire.frame(8, b"1"))
    assert found == [{"id": 1, "name": "a"}, "undecodable"]


# Confluent's schemas


NAMES = st.sampled_from(["id", "at", "é", "b c"])
LEAVES = st.one_of(
    st.sampled_from(["int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"]).map(block),
    st.sampled_from(["io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"]).map(
        lambda name: block("int64", name=name, version=1)
    ),
    st.just(block("string", name="io.debezium.data.Enum", version=1, parameters={"allowed": "a,b"})),
    st.just(decimal(10, 2)),
)
BLOCKS = st.recursive(
    st.tuples(LEAVES, st.booleans()).map(lambda pair: {**pair[0], "optional": pair[1]}),
    lambda inner: st.one_of(
        inner.map(lambda items: block("array", items=items)),
        st.tuples(inner, st.booleans()).map(
            lambda pair: block("map", keys={"type": "string", "optional": pair[1]}, values=pair[0])
        ),
        st.lists(st.tuples(NAMES, inner), min_size=1, unique_by=lambda pair: pair[0]).map(
            lambda pairs: block("struct", name="shop.Value", fields=[{**kind, "field": name} for name, kind in pairs])
        ),
    ),
    max_leaves=8,
)


@given(schema=BLOCKS)
def test_confluent_schema_equals_connect_schema(spark: SparkSession, schema: Block) -> None:
    def tree(kind: Block) -> Any:
        return JsonPayloadParser({}).parse_schema(json.dumps(kind))[0].tree

    # Confluent's converter writes maps with nullable keys as a list of pairs.
    pairs = json.dumps(schema).replace('"keys": {"type": "string", "optional": true}', '"keys": {"type": "struct"}')
    wanted = parse_connect_schema(json.loads(pairs))
    assert _plain(tree(confluent_schema(schema))) == _plain(wanted)


def _plain(tree: Any) -> str:
    """Return a tree as a string that includes the order of columns."""
    children = {name: _plain(inner) for name, inner in (tree.fields or {}).items()}
    others = [inner and _plain(inner) for inner in (tree.element, tree.value)]
    return str((tree.data_type, tree.name, sorted(tree.parameters.items()), list(children.items()), others))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["null", "string"]}, "string"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "boolean"),
        ({"enum": ["a", "b"]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
    ],
)
def test_json_schema_of_other_producers(spark: SparkSession, schema: Block, kind: str) -> None:
    found = parse_connect_schema(to_connect_block({"type": "object", "properties": {"c": schema}}))
    assert table_type(found).simpleString() == f"struct<c:{kind}>"


@pytest.mark.parametrize(
    "part",
    [
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"$ref": "#/definitions/other"},
        {"type": "object"},
        {"type": "null"},
        True,
    ],
)
def test_schema_parts_without_column_type(session: SparkSession, fake_registry: FakeRegistry, part: Any) -> None:
    schema = json.dumps({"type": "object", "properties": {"c": part}})
    fake_registry.answers["/schemas/ids/7"] = {"schema": schema, "schemaType": "JSON"}
    with pytest.raises(DataError) as caught:
        Reader(session, fake_registry.url).read(WIRES[0].frame(7, b"{}"))
    assert str(caught.value) == (
        f"topic rows, schema 7: the JSON Schema has a part that is not a column type: {json.dumps(part)}\n"
        "  fix: exclude the topic, or write the records with Confluent's JsonSchemaConverter"
    )


def nest(levels: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"c": schema}}
    return schema


UNBOUNDED = {
    "300 levels": json.dumps(nest(300)),
    "5000 levels": '{"type":"object","properties":{"c":' * 5000 + "{}" + "}}" * 5000,
    "recursive": '{"type":"object","properties":{"c":{"$ref":"#"}}}',
}


def test_records_of_unbounded_schemas_become_dead_letters(session: SparkSession, fake_registry: FakeRegistry) -> None:
    WIRES[0].register(fake_registry, 7, ROW)
    records = {"bounded": WIRES[0].frame(7, b'{"id":1,"name":"a"}')}
    for number, (name, deep) in enumerate(UNBOUNDED.items(), 8):
        fake_registry.answers[f"/schemas/ids/{number}"] = {"schema": deep, "schemaType": "JSON"}
        records[name] = WIRES[0].frame(number, b'{"c":{}}')
    found = Reader(session, fake_registry.url).read(*records.values())
    assert dict(zip(records, found, strict=True)) == {
        "bounded": {"id": 1, "name": "a"},
        **dict.fromkeys(UNBOUNDED, "schema-unknown"),
    }
    rejected = {}
    for name in UNBOUNDED:
        try:
            Reader(session, fake_registry.url).read(records[name])
        except DataError as error:
            rejected[name] = "exclude the topic, or" in str(error)
    assert rejected == dict.fromkeys(UNBOUNDED, True)


def test_schema_with_maximum_depth_is_read(session: SparkSession, fake_registry: FakeRegistry) -> None:
    levels = SCHEMA_LEVELS - 1
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(nest(levels)), "schemaType": "JSON"}
    [row] = Reader(session, fake_registry.url).read(WIRES[0].frame(7, b'{"c":' * levels + b"5" + b"}" * levels))
    for _ in range(levels):
        row = row["c"]
    assert row == 5


# Rejected schemas and responses


def test_error_statuses_of_the_registry(session: SparkSession, fake_registry: FakeRegistry) -> None:
    with pytest.raises(DataError, match="returned 404 Not Found") as caught:
        Reader(session, fake_registry.url).read(WIRES[0].frame(7, b"{}"))
    assert caught.value.where == f"{fake_registry.url}/schemas/ids/7"
    fake_registry.status = 500
    with pytest.raises(RetriableError, match="returned 500"):
        Reader(session, fake_registry.url).read(WIRES[0].frame(7, b"{}"))
    fake_registry.status = 401
    with pytest.raises(ConfigError, match="returned 401"):
        Reader(session, fake_registry.url).read(WIRES[0].frame(7, b"{}"))


def test_basic_authentication(session: SparkSession, fake_registry: FakeRegistry) -> None:
    WIRES[0].register(fake_registry, 7, ROW)
    reader = Reader(session, fake_registry.url)
    reader.format = JsonFormat({"registry": fake_registry.url, "basic.auth.user.info": "me:secret"})
    assert reader.read(WIRES[0].frame(7, b'{"id":1,"name":null}')) == [{"id": 1, "name": None}]
    assert {authorization for _, authorization in fake_registry.requests} == {"Basic bWU6c2VjcmV0"}
    assert "secret" not in repr(reader.format.config)


def test_check_counts_subjects(session: SparkSession, fake_registry: FakeRegistry) -> None:
    fake_registry.answers["/subjects"] = ["a", "b"]
    assert list(JsonFormat(registry=fake_registry.url).connect(session)) == [
        (f"registry {fake_registry.url}", "responds, 2 subjects")
    ]
    assert list(JsonFormat().connect(session)) == []


def test_global_id_at_an_address_without_global_ids(session: SparkSession, fake_registry: FakeRegistry) -> None:
    with pytest.raises(DataError) as caught:
        Reader(session, f"{fake_registry.url}/apis/ccompat/v7").read(b'{"schemaId":7,"payload":{}}')
    assert str(caught.value) == (
        f"{fake_registry.url}/apis/ccompat/v7: a record has Apicurio's global id 7, which this address cannot look up\n"
        "  fix: set `registry:` to Apicurio's own API, which ends in /apis/registry/v2 or /apis/registry/v3"
    )
    assert fake_registry.requests == []


def test_apicurio_v3_api(session: SparkSession, fake_registry: FakeRegistry) -> None:
    fake_registry.answers["/apis/registry/v3/ids/globalIds/7"] = ROW
    fake_registry.answers["/apis/registry/v3/ids/globalIds/7/references"] = []
    found = Reader(session, f"{fake_registry.url}/apis/registry/v3").read(
        b'{"schemaId":7,"payload":{"id":1,"name":"a"}}'
    )
    assert found == [{"id": 1, "name": "a"}]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"schema": "{}"}, "the schema is AVRO, not JSON"),
        ({"schema": "{}", "schemaType": "PROTOBUF"}, "the schema is PROTOBUF, not JSON"),
        ({"schema": "{}", "schemaType": "JSON", "references": [{"name": "a"}]}, "schema 7 refers to other schemas"),
    ],
)
def test_unsupported_schemas(session: SparkSession, fake_registry: FakeRegistry, answer: Any, message: str) -> None:
    fake_registry.answers["/schemas/ids/7"] = answer
    with pytest.raises(DataError, match=message):
        Reader(session, fake_registry.url).read(WIRES[0].frame(7, b"{}"))


def test_recursive_schema_affects_only_its_records(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """The registry cannot return another form of the schema later, so the error is not retried."""
    deep = '{"type":"object","properties":{"a":' * 1000 + '{"type":"integer"}' + "}}" * 1000
    itself = {"type": "object", "properties": {"id": {"type": "integer"}, "next": {"$ref": "#"}}}
    maybe = {**itself, "properties": {"next": {"oneOf": [{"type": "null"}, {"$ref": "#"}]}}}
    WIRES[0].register(fake_registry, 1, ROW)
    texts = deep, json.dumps(itself), json.dumps(maybe)
    for number, text in enumerate(texts, 2):
        fake_registry.answers[f"/schemas/ids/{number}"] = {"schema": text, "schemaType": "JSON"}
    good = WIRES[0].frame(1, b'{"id":1,"name":"x"}')
    bad = [WIRES[0].frame(number, b"{}") for number in (2, 3, 4)]
    found = Reader(session, fake_registry.url).read(good, *bad)
    assert found == [{"id": 1, "name": "x"}, *["schema-unknown"] * 3]
    with pytest.raises(DataError, match="the JSON Schema contains itself, which a table cannot"):
        Reader(session, fake_registry.url).read(bad[1])


def test_records_without_ids(session: SparkSession, fake_registry: FakeRegistry) -> None:
    with pytest.raises(DataError) as caught:
        Reader(session, fake_registry.url).read(b'{"id":1}', b'{"id":2}')
    assert str(caught.value) == (
        "topic rows: none of the records starts with a schema id, and none has one in its headers\n"
        "  fix: remove `registry:`: JSON without ids contains its schema or has none"
    )


def test_declared_types_are_rejected(session: SparkSession, fake_registry: FakeRegistry) -> None:
    log = SchemaLog(file_types=lambda topic: {"price": "decimal(10,2)"})
    with pytest.raises(ConfigError, match="but the records have a schema"):
        Reader(session, fake_registry.url, log).read(WIRES[0].frame(7, b"{}"))


def test_aws_glue_is_rejected() -> None:
    with pytest.raises(ConfigError, match="supports only Avro, not JSON"):
        JsonFormat(registry="glue")


def test_plan_runs_no_python(session: SparkSession, fake_registry: FakeRegistry) -> None:
    WIRES[2].register(fake_registry, 7, FULL)
    json_format = JsonFormat(registry=fake_registry.url + WIRES[2].interface)
    topics = topic(session, WIRES[2].frame(7, GOOD))
    [events] = RecordDecoder(json_format).decode(SourceContext(session, SchemaLog()), topics)
    frame: Any = events.load(session, events.schema)
    assert "Python" not in frame._jdf.queryExecution().executedPlan().toString().replace("ExistingRDD", "")


def test_timestamps(session: SparkSession, fake_registry: FakeRegistry) -> None:
    at = block("int64", name="io.debezium.time.MicroTimestamp", version=1)
    WIRES[0].register(fake_registry, 7, struct(at=at))
    found = Reader(session, fake_registry.url).read(WIRES[0].frame(7, b'{"at":1767323045678901}'))
    assert found == [{"at": datetime(2026, 1, 2, 3, 4, 5, 678901)}]  # noqa: DTZ001 - local time without a zone
