"""Avro records of real converters. A fake registry returns the responses of the real ones, by path."""

from __future__ import annotations

import base64
import io
import json
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import fastavro
import moto
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType
from tests.support.tiers import nightly_after

from headrace.engine.read.record_decoder import RecordDecoder, Records
from headrace.errors import ConfigError, DataError, LoginError, RetriableError
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions, move_to_session
from headrace.spark.storage import Folder
from headrace_kafka import registry_client as registry
from headrace_sources.formats.avro import AvroFormat
from headrace_sources.limits import INFLATED_RECORD_BYTES, MISSING_SCHEMAS, SCHEMA_LEVELS
from headrace_sources.registries.avro_payload import AvroPayloadParser
from headrace_sources.registries.decoder import RegistryDecoder
from headrace_sources.registries.zlib import inflate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DATA = Path(__file__).parents[3] / "data/debezium"
SAMPLES = [json.loads(line) for line in (DATA / "pg_avro.jsonl").read_text().splitlines()]
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, headers array<struct<key:string,value:binary>>"
API = {
    "pg_avro_confluent": "",
    "pg_avro_apicurio": "/apis/registry/v2",
    "pg_avro_headers": "/apis/registry/v2",
    "pg_avro_apicurio_v3": "/apis/registry/v3",
    "pg_avro_apicurio_v3_8byte": "/apis/registry/v3",
}


class FakeRegistry(ThreadingHTTPServer):
    """Registry that answers by path. ``requests`` records the requests; ``status`` and ``body`` override the answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = json.loads((DATA / "pg_avro_registry.json").read_text())
        self.requests: list[tuple[str, str | None]] = []
        self.status, self.body = 0, ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def do_GET(self) -> None:
        server = self.server
        server.requests.append((self.path, self.headers["Authorization"]))
        found = self.path in server.answers
        status = server.status or (200 if found else 404)
        body = server.body or (json.dumps(server.answers[self.path]) if found else '{"error_code":40403}')
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def start_fake_registry() -> Iterator[FakeRegistry]:
    server = FakeRegistry()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture
def fake_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(registry, "PAUSES", (0.01,))
    with start_fake_registry() as server:
        yield server


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return Sessions(spark, AvroFormat.sql_conf).of("avro")


def topic(spark: SparkSession, prefix: str, table: str, *more: Mapping[str, Any]) -> dict[str, Records]:
    """Return the sample's records of a table, followed by ``more``, as a topic."""
    name = f"{prefix}.inventory.{table}"
    found = [*(record for record in SAMPLES if record["topic"] == name), *more]
    rows = [
        (_raw(r["key"]), _raw(r["value"]), name, 0, r["offset"], [(key, _raw(value)) for key, value in r["headers"]])
        for r in found
    ]
    frame = spark.createDataFrame(rows, KAFKA)
    return {name: partial(move_to_session, frame)}


def _raw(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def read(
    session: SparkSession,
    avro: AvroFormat,
    topics: dict[str, Records],
    log: SchemaLog | None = None,
) -> DataFrame:
    [events] = RecordDecoder(avro, avro).decode(SourceContext(session, log or SchemaLog()), topics)
    return events.load(session, events.schema)


def images(frame: DataFrame) -> list[tuple[int, str | None, dict[str, Any] | None, str | None]]:
    """Return key, op, after and error of each record, in order."""
    rows = [row.asDict(recursive=True) for row in frame.orderBy("offset").collect()]
    values = [(row["key"], row["value"] or {}, row["error"]) for row in rows]
    return [(key["id"], value.get("op"), value.get("after"), error) for key, value, error in values]


@pytest.mark.parametrize("prefix", nightly_after(1, ["pg_avro_confluent", "pg_avro_apicurio", "pg_avro_headers"]))
def test_table_is_altered_between_records(session: SparkSession, fake_registry: FakeRegistry, prefix: str) -> None:
    avro = AvroFormat(registry=fake_registry.url + API[prefix])
    found = images(read(session, avro, topic(session, prefix, "customers")))
    assert {error for *_, error in found} == {None}
    assert [(key, op) for key, op, *_ in found][3:9] == [
        (4, "c"),
        (4, "u"),
        (4, "d"),
        (4, None),
        (1004, "c"),
        (1004, "d"),
    ]
    last = {key: after for key, _, after, _ in found}
    renamed = next(after for after in last.values() if after and after["email"] == "nc@x")
    assert renamed["phone_no"] == "555-3"
    assert renamed["phone"] is None
    edward = next(after for after in last.values() if after and after["first_name"] == "Edward")
    assert str(edward["balance"]) == "-3.33"
    assert str(edward["created_at"]) == "2026-01-02 03:04:05.678901"


@pytest.mark.parametrize("prefix", nightly_after(1, ["pg_avro_apicurio_v3", "pg_avro_apicurio_v3_8byte"]))
def test_schemas_with_references(session: SparkSession, fake_registry: FakeRegistry, prefix: str) -> None:
    avro = AvroFormat(registry=fake_registry.url + API[prefix])
    found = images(read(session, avro, topic(session, prefix, "customers")))
    assert [(op, error) for _, op, _, error in found] == [("r", None)] * len(found)
    assert {after["first_name"] for _, _, after, _ in found if after} >= {"Sally", "George", "Edward", "Dropped"}


@pytest.mark.parametrize("prefix", nightly_after(1, sorted(API)))
def test_every_postgresql_type(session: SparkSession, fake_registry: FakeRegistry, prefix: str) -> None:
    avro = AvroFormat(registry=fake_registry.url + API[prefix])
    rows = {key: after for key, _, after, _ in images(read(session, avro, topic(session, prefix, "all_types")))}
    full, empty, edge = (rows[key] or {} for key in (1, 2, 3))
    assert (full["c_small"], edge["c_small"]) == (-32768, 32767)
    assert str(full["c_num_10_2"]) == "12345678.90"
    assert str(edge["c_num_10_2"]) == "-0.01"
    assert str(full["c_date"]) == "2026-11-21"
    assert str(edge["c_date"]) == "0001-01-01"
    assert str(full["c_ts"]) == "2026-11-21 13:14:15.123456"
    assert bytes(full["c_bytea"]) == bytes.fromhex("deadbeef00ff")
    assert full["c_int_arr"] == [1, None, 3]
    assert (full["c_text"], edge["c_text"]) == ("changed", "")
    assert {name for name, value in empty.items() if value is not None} <= {"id", "c_serial", "c_bigserial"}


def test_later_schema_is_requested_once(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """Follow the engine: the task fails, the format explains the error, and the batch is planned again."""
    avro, log = AvroFormat(registry=fake_registry.url), SchemaLog()
    name, records = next(iter(topic(session, "pg_avro_confluent", "customers").items()))
    read(session, avro, {name: lambda s: records(s).where("offset < 3")}, log).collect()
    known = set(log.writers(Subject(name, "value")))
    for _ in range(10):
        frame = read(session, avro, {name: records}, log)
        try:
            found = images(frame)
            break
        except (PySparkException, Py4JJavaError) as error:
            explained = avro.explain(error)
            assert isinstance(explained, UnknownSchemaError)
            assert "which no record had before" in explained.what
            log.note_unknown(explained.schemas)
    assert len(log.writers(Subject(name, "value"))) > len(known) == 1
    assert {error for *_, error in found} == {None}
    requests = [path for path, _ in fake_registry.requests]
    assert len(requests) == len(set(requests)), "each schema is asked for once"


def test_damaged_records_become_dead_letters(session: SparkSession, fake_registry: FakeRegistry) -> None:
    good = next(r for r in SAMPLES if r["topic"].endswith("confluent.inventory.customers"))
    raw = base64.b64decode(good["value"])
    bad = [raw[:20], b"{}", b"", b"\x00\x00", raw[:5]]
    more = [
        {"key": good["key"], "value": base64.b64encode(body).decode(), "offset": 100 + i, "headers": []}
        for i, body in enumerate(bad)
    ]
    avro = AvroFormat(registry=fake_registry.url)
    found = images(read(session, avro, topic(session, "pg_avro_confluent", "customers", *more)))
    assert [error for *_, error in found][-5:] == ["undecodable"] * 5
    assert {error for *_, error in found[:-5]} == {None}


@pytest.mark.parametrize("namespace", nightly_after(1, ["io.debezium.connector.mysql", "shop"]))
def test_keys_of_metadata_add_no_key_columns(session: SparkSession, namespace: str) -> None:
    names = {"1": ("shop.people.Key", "id"), "2": (f"{namespace}.SchemaChangeKey", "databaseName")}
    schemas = {
        id_: {"type": "record", "name": name, "fields": [{"name": field, "type": "string"}]}
        for id_, (name, field) in names.items()
    }
    rows: list[tuple[Any, ...]] = []
    for offset, (id_, (_, field)) in enumerate(names.items()):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schemas[id_], {field: "x"})
        rows.append((b"\0" + int(id_).to_bytes(4, "big") + body.getvalue(), None, "t", 0, offset, []))
    frame = session.createDataFrame(rows, KAFKA)
    decoder = RegistryDecoder(AvroPayloadParser(), lambda id_: json.dumps(schemas[id_]), id_kind="")
    reader = decoder.open(frame, "key", Subject("t", "key"), SchemaLog())
    found = reader.decode(frame, "key", reader.schema, "error").orderBy("offset").select("key", "error").collect()
    if namespace == "shop":  # a table's own
        assert reader.schema.names == ["id", "databaseName"]
    else:
        assert [(row["key"] and row["key"].asDict(), row["error"]) for row in found] == [
            ({"id": "x"}, None),
            (None, None),
        ]


def test_key_with_the_id_of_an_envelope_adds_no_key_columns(session: SparkSession) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    envelope = {"type": "record", "name": "Envelope", "fields": [{"name": "after", "type": row}]}
    schemas = {"1": row, "2": envelope}
    frame, decoder = write_records(session, schemas, [("2", {"after": {"id": 1}}), ("1", {"id": 2})])
    frame = frame.withColumn("key", frame["value"])
    reader = decoder.open(frame, "key", Subject("t", "key"), SchemaLog())
    found = reader.decode(frame, "key", reader.schema, "error").orderBy("offset").select("key.id", "error").collect()
    assert reader.schema.names == ["id"]
    assert [tuple(row) for row in found] == [(None, "schema-incompatible"), (2, None)]


def write_records(
    session: SparkSession, schemas: Mapping[str, Any], records: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[DataFrame, RegistryDecoder]:
    """Return records, written with the schemas of their ids, and their decoder."""
    rows: list[tuple[Any, ...]] = []
    for offset, (id_, value) in enumerate(records):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schemas[id_], value)
        rows.append((None, b"\0" + int(id_).to_bytes(4, "big") + body.getvalue(), "t", 0, offset, []))
    decoder = RegistryDecoder(AvroPayloadParser(), lambda id_: json.dumps(schemas[id_]), id_kind="")
    return session.createDataFrame(rows, KAFKA), decoder


def test_later_schema_has_its_fields_in_another_order(session: SparkSession) -> None:
    def record(name: str, **fields: Any) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}

    first_box, box = record("Box", x="int", y="int"), record("Box", z="int", y="int", x="int")
    rest = {"boxes": {"type": "array", "items": "Box"}, "day": {"type": "int", "connect.name": "io.debezium.time.Date"}}
    schemas = {
        "1": record("V", id="int", box=first_box, **rest),
        "2": record("V", new="int", id="long", box=box, **rest),
    }
    old, new = {"x": 1, "y": 2, "z": None}, {"x": 3, "y": 4, "z": 5}
    rows: list[dict[str, Any]] = [
        {"id": 1, "new": None, "box": old, "boxes": [old]},
        {"id": 2, "new": 7, "box": new, "boxes": [new]},
    ]
    frame, decoder = write_records(session, schemas, [(f"{row['id']}", {**row, "day": 0}) for row in rows])
    reader = decoder.open(frame, "value", Subject("t", "value"), SchemaLog())
    # The complete schema, a part without conversions, and one with a conversion.
    for names in (reader.schema.names, ["box", "id"], ["box", "boxes", "day"]):
        schema = StructType([reader.schema[name] for name in names])
        found = reader.decode(frame, "value", schema, "error").orderBy("offset").select("value.*", "error").collect()
        expected = [{**row, "day": date.fromisoformat("1970-01-01"), "error": None} for row in rows]
        assert [row.asDict(recursive=True) for row in found] == [
            {name: row[name] for name in (*names, "error")} for row in expected
        ]


@pytest.mark.parametrize("name", ["_headrace_op", "x" * 256])
def test_records_whose_only_schema_is_rejected_are_dead_letters(session: SparkSession, name: str) -> None:
    schemas = {"1": {"type": "record", "name": "V", "fields": [{"name": name, "type": "int"}]}}
    frame, decoder = write_records(session, schemas, [("1", {name: 7})])
    reader = decoder.open(frame, "value", Subject("t", "value"), SchemaLog())
    (row,) = reader.decode(frame, "value", reader.schema, "error").select("error").collect()
    assert row["error"] == "field-name"


def test_columns_that_fit_of_an_incompatible_schema_are_read(session: SparkSession) -> None:
    """The other columns of rejected records are decoded: of a schema that contradicts the first one, or with an invalid name."""
    types: dict[str, Any] = {"1": "int", "2": {"type": "array", "items": "string"}, "3": "int"}
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "city", "type": "string"}]}
    odd = {**inner, "fields": [{"name": "x" * 256, "type": "int"}, *inner["fields"]]}
    schemas = {
        id_: {
            "type": "record",
            "name": "V",
            "fields": [
                {"name": name, "type": type_}
                for name, type_ in {"id": "int", "email": "string", "age": age, "home": inner, **more}.items()
            ],
        }
        for (id_, age), more in zip(types.items(), ({}, {}, {"_headrace_op": "string", "home": odd}), strict=True)
    }
    odd_cells = {"home": {"city": "Brno", "x" * 256: 5}, "_headrace_op": "x"}
    records = [
        (id_, {"id": offset, "email": "a@b", "age": age, **odd_cells})
        for offset, (id_, age) in enumerate([("1", 7), ("2", ["x"]), ("3", 8)])
    ]
    frame, decoder = write_records(session, schemas, records)
    log = SchemaLog(ruled=lambda topic: ["schema-incompatible"])
    reader = decoder.open(frame, "value", Subject("t", "value"), log)
    found = reader.decode(frame, "value", reader.schema, "error").orderBy("offset").select("value", "error").collect()
    read_home = StructType([StructField("home", reader.schema["home"].dataType)])
    part = reader.decode(frame, "value", read_home, "error").orderBy("offset").select("value.*").collect()
    assert [(row["value"].asDict(recursive=True), row["error"]) for row in found] == [
        ({"id": 0, "email": "a@b", "age": 7, "home": {"city": "Brno"}}, None),
        ({"id": 1, "email": "a@b", "age": None, "home": {"city": "Brno"}}, "schema-incompatible"),
        ({"id": 2, "email": "a@b", "age": 8, "home": {"city": "Brno"}}, "field-name"),
    ]
    assert [row.asDict(recursive=True) for row in part] == [{"home": {"city": "Brno"}}] * 3


def test_bare_avro_with_a_schema_file(session: SparkSession, tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
    }
    file = tmp_path / "row.avsc"
    file.write_text(json.dumps(schema))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"id": 7, "name": "é"})
    frame = session.createDataFrame([(None, out.getvalue(), "rows", 0, 0, None)], KAFKA)
    [events] = RecordDecoder(AvroFormat({"schema.file": str(file)})).decode(
        SourceContext(session, SchemaLog()),
        {"rows": partial(move_to_session, frame)},
    )
    [row] = events.load(session, events.schema).collect()
    assert row["value"].asDict() == {"id": 7, "name": "é"}


# Record formats


ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}
GUID = "6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a"


def encode(schema: Any, value: Any) -> bytes:
    """Return ``value`` as bare Avro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def body(id: int, name: str) -> bytes:  # noqa: A002
    return encode(ROW, {"id": id, "name": name})


def make_topic(
    session: SparkSession, *records: bytes, headers: Mapping[str, bytes] | None = None
) -> dict[str, Records]:
    return make_topic_with_headers(session, *((value, headers) for value in records))


def make_topic_with_headers(
    session: SparkSession, *records: tuple[bytes, Mapping[str, bytes] | None]
) -> dict[str, Records]:
    """Return a topic of records, each with its own headers. The offset of a record is its index."""
    # Spark represents missing headers as null.
    rows = [
        (None, value, "rows", 0, i, list(headers.items()) if headers else None)
        for i, (value, headers) in enumerate(records)
    ]
    return {"rows": partial(move_to_session, session.createDataFrame(rows, KAFKA))}


def test_guids_before_values(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """Confluent's registry cannot be installed in tests, so the response follows its documentation."""
    fake_registry.answers[f"/schemas/guids/{GUID}"] = {"schema": json.dumps(ROW), "schemaType": "AVRO", "guid": GUID}
    frame = b"\x01" + uuid.UUID(GUID).bytes
    found = read(
        session, AvroFormat(registry=fake_registry.url), make_topic(session, frame + body(1, "a"), frame + body(2, "é"))
    )
    assert [tuple(row) for row in found.orderBy("offset").select("value.*").collect()] == [(1, "a"), (2, "é")]


@pytest.mark.one_spark
def test_ids_in_confluent_header(session: SparkSession, fake_registry: FakeRegistry) -> None:
    # The schemas have different columns, so that a row read with the schema of the other id differs.
    fields = {"guid": {"name": "name", "type": "string"}, "number": {"name": "city", "type": "string"}}
    schemas = {case: {**ROW, "fields": [ROW["fields"][0], field]} for case, field in fields.items()}
    ids = {"guid": b"\x01" + uuid.UUID(GUID).bytes, "number": b"\x00\x00\x00\x00\x07"}
    fake_registry.answers[f"/schemas/guids/{GUID}"] = {"schema": json.dumps(schemas["guid"])}
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(schemas["number"])}
    topics = make_topic_with_headers(session, *((body(1, "a"), {"__value_schema_id": ids[case]}) for case in ids))
    found = read(session, AvroFormat(registry=fake_registry.url), topics).orderBy("offset").collect()
    rows = [row["value"] and row["value"].asDict() for row in found]
    assert dict(zip(ids, rows, strict=True)) == {
        "guid": {"id": 1, "name": "a", "city": None},
        "number": {"id": 1, "name": None, "city": "a"},
    }


@pytest.mark.one_spark
def test_headers_without_valid_id(session: SparkSession, fake_registry: FakeRegistry) -> None:
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(ROW)}
    value = b"\0\0\0\0\7" + body(1, "a")
    header_values = b"", b"7", b"\1\0\0\0\7", b"\0" * 30
    found = {}
    # One topic per name, because a header of either name makes the plan search all headers.
    for name in ("__value_schema_id", "apicurio.value.globalId"):
        bad = [(value, {name: header_value, "other": b"1"}) for header_value in header_values]
        topics = make_topic_with_headers(session, (value, None), *bad)
        rows = read(session, AvroFormat(registry=fake_registry.url), topics).orderBy("offset").collect()
        for header_value, row in zip((None, *header_values), rows, strict=True):
            found[name, header_value] = row["value"] and row["value"][0], row["error"]
    assert found == {case: (1, None) if case[1] is None else (None, "undecodable") for case in found}


@pytest.mark.one_spark
def test_debezium_headers_are_not_ids(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """Debezium 3.6 writes headers in every record, and reading ids from headers makes the plan many times larger."""
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(ROW)}
    own = {"__debezium.context.connectorName": b"postgres", "__debezium.context.taskId": b"0"}
    plain = read(session, AvroFormat(registry=fake_registry.url), make_topic(session, b"\0\0\0\0\7" + body(1, "a")))
    found = read(
        session, AvroFormat(registry=fake_registry.url), make_topic(session, b"\0\0\0\0\7" + body(1, "a"), headers=own)
    )
    assert [tuple(row) for row in found.select("value.*").collect()] == [(1, "a")]
    assert len(found.columns) == len(plain.columns)
    steps = [str(frame._jdf.queryExecution().analyzed().toString()).count("Project") for frame in (plain, found)]
    assert steps[0] == steps[1]


@pytest.fixture(scope="module")
def checkpoint_of_front_ids(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return the schemas of a topic whose first batch had ids only before the values."""
    folder = Folder(session, str(tmp_path_factory.mktemp("schemas")))
    with start_fake_registry() as server:
        server.answers["/schemas/ids/7"] = {"schema": json.dumps(ROW)}
        first = make_topic(session, b"\0\0\0\0\7" + body(1, "a"))
        assert read(session, AvroFormat(registry=server.url), first, SchemaLog(folder)).count() == 1
    return folder


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("late", "headers", "expected"),
    nightly_after(
        2,
        [
            (b"\0\0\0\0\7" + body(2, "b"), {"traceparent": b"00-1-2-01"}, {1: None, 2: None}),
            (body(2, "b"), {"__value_schema_id": b"\0\0\0\0\7"}, {1: None, 2: None}),
            (b"\0\0\0\0\0\0\0\0\7" + body(2, "b"), None, {1: None, 2: None}),
            (b"\0\0\0\0\7", None, {1: None, None: "undecodable"}),
            (b"{}", None, {1: None, None: "undecodable"}),
        ],
    ),
    ids=["other headers", "id in a header", "id of eight bytes", "nothing after the id", "no Avro"],
)
def test_record_with_a_new_location_of_its_id(
    session: SparkSession,
    checkpoint_of_front_ids: Folder,
    late: bytes,
    headers: dict[str, bytes] | None,
    expected: dict[int | None, str | None],
) -> None:
    """The second plan reads headers only when it must. Each record is a batch, because one that must changes the plan."""
    # The checkpoint holds the schema, so no request is sent.
    avro, log = AvroFormat(registry="http://registry.invalid"), SchemaLog(checkpoint_of_front_ids)
    topics = make_topic_with_headers(session, (b"\0\0\0\0\7" + body(1, "a"), None), (late, headers))
    for again in (False, True):
        try:
            found = read(session, avro, topics, log).collect()
            break
        except (PySparkException, Py4JJavaError) as error:
            assert not again, "planned again once, and no more"
            explained = avro.explain(error)
            assert isinstance(explained, UnknownSchemaError)
            log.note_unknown(explained.schemas)
    assert {row["value"] and row["value"][0]: row["error"] for row in found} == expected


def nest(levels: int) -> Any:
    schema: Any = "int"
    for i in range(levels):
        schema = {"type": "record", "name": f"R{i}", "fields": [{"name": "c", "type": schema}]}
    return schema


def double(levels: int) -> Any:
    """Return a record type with two fields of the same type, nested ``levels`` deep."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "c", "type": "int"}]}
    for i in range(1, levels):
        fields = [{"name": "c", "type": schema}, {"name": "d", "type": f"R{i - 1}"}]
        schema = {"type": "record", "name": f"R{i}", "fields": fields}
    return schema


UNBOUNDED = {
    "150 levels": json.dumps(nest(150)),
    "5000 levels": '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000,
    "2^30 columns": json.dumps(double(30)),
    "recursive": json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": ["null", "R"]}]}),
}


def test_records_of_unbounded_schemas_become_dead_letters(session: SparkSession, fake_registry: FakeRegistry) -> None:
    schemas = {"bounded": json.dumps(ROW), **UNBOUNDED}
    fake_registry.answers |= {f"/schemas/ids/{i}": {"schema": text} for i, text in enumerate(schemas.values(), 7)}
    records = [b"\0\0\0\0" + bytes([i]) + b"\2\4" for i in range(8, 8 + len(UNBOUNDED))]
    topics = make_topic(session, b"\0\0\0\0\7" + body(1, "a"), *records)
    rows = read(session, AvroFormat(registry=fake_registry.url), topics).orderBy("offset").collect()
    found = [(row["value"] and row["value"].asDict(), row["error"]) for row in rows]
    assert dict(zip(schemas, found, strict=True)) == {
        "bounded": ({"id": 1, "name": "a"}, None),
        **dict.fromkeys(UNBOUNDED, (None, "schema-unknown")),
    }


@pytest.mark.nightly
def test_flood_of_unknown_ids(session: SparkSession, fake_registry: FakeRegistry) -> None:
    fake_registry.answers |= {f"/schemas/ids/{i}": {"schema": json.dumps(ROW)} for i in (7, 5_000)}
    good = [b"\0" + number.to_bytes(4, "big") + body(number, "a") for number in (7, 5_000, 5_000)]
    flood = [b"\0" + number.to_bytes(4, "big") + body(1, "x") for number in range(100, 3_100)]
    avro, log = AvroFormat(registry=fake_registry.url), SchemaLog(ruled=lambda topic: [RejectReason.SCHEMA_UNKNOWN])
    topics = make_topic(session, good[0], *flood, *good[1:])
    for _ in range(3):
        try:
            rows = read(session, avro, topics, log).orderBy("offset").collect()
            break
        except (PySparkException, Py4JJavaError) as error:
            explained = avro.explain(error)
            assert isinstance(explained, UnknownSchemaError)
            log.note_unknown(explained.schemas)
    found = [(row["value"] and row["value"]["id"], row["error"]) for row in rows]
    assert found == [(7, None), *[(None, "schema-unknown")] * len(flood), (5_000, None), (5_000, None)]
    assert len(fake_registry.requests) <= MISSING_SCHEMAS + 2


def test_schema_with_maximum_depth_is_read(session: SparkSession, fake_registry: FakeRegistry) -> None:
    levels = SCHEMA_LEVELS - 1
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(nest(levels))}
    [row] = read(session, AvroFormat(registry=fake_registry.url), make_topic(session, b"\0\0\0\0\7\n")).collect()
    value = row["value"]
    for _ in range(levels):
        value = value["c"]
    assert (value, row["error"]) == (5, None)


@pytest.mark.nightly
def test_batch_of_only_damaged_records(session: SparkSession, fake_registry: FakeRegistry) -> None:
    """The topic had valid records before."""
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(ROW)}
    avro, log = AvroFormat(registry=fake_registry.url), SchemaLog()
    read(session, avro, make_topic(session, b"\0\0\0\0\7" + body(1, "a")), log).collect()
    bad = make_topic(session, b"{}", b"")
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        read(session, avro, bad, log).collect()
    explained = avro.explain(caught.value)
    assert isinstance(explained, UnknownSchemaError)
    log.note_unknown(explained.schemas)
    found = read(session, avro, bad, log).collect()
    assert [(row["value"], row["error"]) for row in found] == [(None, "undecodable")] * 2


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start AWS Glue, emulated by moto. The tests frame records as its documentation describes."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        yield boto3.client("glue", region_name="eu-west-1")


def test_aws_glue(session: SparkSession, glue: Any) -> None:
    glue.create_registry(RegistryName="shop")
    schema_options = {"RegistryId": {"RegistryName": "shop"}, "SchemaName": "row", "Compatibility": "NONE"}
    version = glue.create_schema(**schema_options, DataFormat="AVRO", SchemaDefinition=json.dumps(ROW))[
        "SchemaVersionId"
    ]
    plain, compressed = (b"\x03" + compression + uuid.UUID(version).bytes for compression in (b"\x00", b"\x05"))
    complete = zlib.compress(body(2, "é" * 5000))
    records = (
        plain + body(1, "a"),
        compressed + complete,
        compressed + complete[:-20],
        compressed + b"no zlib",
        compressed + zlib.compress(complete),
    )
    found = read(session, AvroFormat(registry="glue", region="eu-west-1"), make_topic(session, *records))
    rows = [(row["value"] and tuple(row["value"]), row["error"]) for row in found.orderBy("offset").collect()]
    assert rows == [((1, "a"), None), ((2, "é" * 5000), None), *[(None, "undecodable")] * 3]


def test_zlib_is_compiled_into_the_plan(session: SparkSession) -> None:
    """Spark silently interprets an expression whose code does not compile, which is slow."""
    compressed = zlib.compress(b"whole")
    frame = session.createDataFrame([(compressed,), (compressed[:5],), (None,)], "cell binary")
    frame = frame.select(inflate(session, frame["cell"]).alias("cell"))
    plan: Any = frame._jdf.queryExecution().analyzed()
    schema_options: Any = session._jvm.org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection  # type: ignore[union-attr]
    schema_options.generate(plan.expressions(), plan.inputSet().toSeq())
    assert [row["cell"] for row in frame.collect()] == [b"whole", None, None]


def test_decompression_is_limited(session: SparkSession) -> None:
    bomb = zlib.compress(bytes(INFLATED_RECORD_BYTES + 1))
    frame = session.createDataFrame([(bomb,)], "cell binary")
    assert len(bomb) < 1 << 20
    assert frame.select(F.length(inflate(session, frame["cell"]))).first() == (INFLATED_RECORD_BYTES,)


@pytest.mark.one_spark
def test_aws_glue_rejects_unknown_ids(session: SparkSession, glue: Any, fake_registry: FakeRegistry) -> None:
    unknown = make_topic(session, b"\x03\x00" + uuid.UUID(GUID).bytes + body(1, "a"))
    with pytest.raises(DataError, match="no such schema") as caught:
        read(session, AvroFormat(registry="glue", region="eu-west-1"), unknown)
    assert GUID in str(caught.value)
    with pytest.raises(DataError, match="which is not an id of this registry"):
        read(session, AvroFormat(registry=fake_registry.url), unknown)
    with pytest.raises(DataError, match="which is not an id of AWS Glue"):
        read(
            session,
            AvroFormat(registry="glue", region="eu-west-1"),
            make_topic(session, b"\x00\x00\x00\x00\x07" + body(1, "a")),
        )


@pytest.mark.one_spark
def test_aws_glue_without_credentials(session: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    record = make_topic(session, b"\x03\x00" + uuid.UUID(GUID).bytes + body(1, "a"))
    with pytest.raises(ConfigError, match="no AWS region is set"):
        read(session, AvroFormat(registry="glue"), record)
    with pytest.raises(ConfigError, match="no AWS credentials found"):
        read(session, AvroFormat(registry="glue", region="eu-west-1"), record)


# Registry responses


@pytest.mark.one_spark
def test_credentials(fake_registry: FakeRegistry, session: SparkSession) -> None:
    for options, expected in (
        ({"basic.auth.user.info": "me:secret"}, "Basic bWU6c2VjcmV0"),
        ({"bearer.auth.token": "abc"}, "Bearer abc"),
    ):
        avro = AvroFormat({"registry": fake_registry.url, **options})
        read(session, avro, topic(session, "pg_avro_confluent", "customers"))
        assert {authorization for _, authorization in fake_registry.requests} == {expected}
        assert "secret" not in repr(avro.config)
        fake_registry.requests.clear()


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (401, "who are you", LoginError, "returned 401 Unauthorized: who are you"),
        (404, "", DataError, "returned 404 Not Found"),
        (500, "", RetriableError, "returned 500 Internal Server Error"),
        (200, "<html>", ConfigError, "the server is not a schema registry"),
    ],
)
def test_registry_errors(
    session: SparkSession, fake_registry: FakeRegistry, status: int, body: str, kind: type[Exception], message: str
) -> None:
    fake_registry.status, fake_registry.body = status, body
    with pytest.raises(kind, match=message) as caught:
        read(session, AvroFormat(registry=fake_registry.url), topic(session, "pg_avro_confluent", "customers"))
    assert f"{fake_registry.url}/schemas/ids/" in str(caught.value)
    assert len(fake_registry.requests) == (2 if kind is RetriableError else 1)


@pytest.mark.one_spark
def test_unreachable_registry(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PAUSES", (0.01,))
    with pytest.raises(RetriableError, match=r"did not respond: .*refused"):
        read(session, AvroFormat(registry="http://127.0.0.1:1"), topic(session, "pg_avro_confluent", "customers"))


def test_records_of_another_format(session: SparkSession, fake_registry: FakeRegistry) -> None:
    frame = session.createDataFrame([(None, b'{"id": 1}', "rows", 0, 0, None)], KAFKA)
    with pytest.raises(DataError, match="none of the records starts with a schema id"):
        read(session, AvroFormat(registry=fake_registry.url), {"rows": partial(move_to_session, frame)})


def test_unknown_writer_schema(session: SparkSession) -> None:
    with pytest.raises(ConfigError, match="the records' writer schema is unknown"):
        read(session, AvroFormat(), topic(session, "pg_avro_confluent", "customers"))


def test_registry_and_schema_file_are_exclusive() -> None:
    with pytest.raises(ConfigError, match=r"has both `registry` and `schema\.file`"):
        AvroFormat({"registry": "http://registry:8081", "schema.file": "row.avsc"})
