"""Records of the sink ``kafka`` without a broker: keys, values, order, and the values that headrace reads back."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.sql import functions as F
from tests.support.records import make_changes

from headrace.sdk import DataError, changes as C
from headrace.sdk.changes import DELETED, KEY, POSITION
from headrace.sdk.sink import Table
from headrace.testing.tables import VALUES, plain
from headrace_sinks import KafkaSink
from headrace_sinks.change_records import make_records
from headrace_sinks.kafka.kafka_records import choose_format
from headrace_sinks.kafka.registered_avro import RegisteredAvro
from headrace_sinks.placeholders import make_placeholder
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.dialects.unavailable_values import PLACEHOLDER, placeholder_tests
from headrace_sources.formats.avro import AvroFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps]

#: Decimals as numbers make the engine plan the batch again, so that they are not read here.
COLUMNS = {name: values for name, values in VALUES.items() if not values[0].startswith("decimal")}
TABLE = Table("shop.orders", ("id",))
_RECORD = f"{C.PARTITION} int, {C.OFFSET} bigint, {C.TOMBSTONE} boolean, {KEY} struct<id: int>"


def encode(rows: DataFrame, table: Table = TABLE, **options: Any) -> DataFrame:
    """Return the rows as records of a topic."""
    config = KafkaSink({"bootstrap.servers": "broker:9092", **options}).config
    return make_records(rows, table, choose_format("replica.orders", config, RegisteredAvro(config)))


def records(rows: DataFrame, **options: Any) -> list[Any]:
    """Return the rows as records of a topic, in the order of the tasks."""
    return encode(rows, **options).collect()


def make_rows(spark: SparkSession, *rows: tuple[int, str | None, int, int, bool, bool]) -> DataFrame:
    """Return rows of id, name, partition, offset, and whether the record is a tombstone, and a delete."""
    data = [
        (id_, name, partition, offset, is_tombstone, None if id_ < 0 else (id_,), is_deleted, f"{offset}")
        for id_, name, partition, offset, is_tombstone, is_deleted in rows
    ]
    schema = f"id int, name string, {_RECORD}, {DELETED} boolean, {POSITION} string"
    return spark.createDataFrame(data, schema)


PLAIN: dict[str, Any] = {"key.converter.schemas.enable": False, "value.converter.schemas.enable": False}


def test_deletes_and_tombstones_have_no_value(spark: SparkSession) -> None:
    rows = make_rows(spark, (1, "a", 0, 1, False, False), (1, None, 0, 2, False, True), (1, None, 0, 3, True, False))
    found = [(record["key"], record["value"]) for record in records(rows, **PLAIN)]
    assert found == [('{"id":1}', '{"id":1,"name":"a"}'), ('{"id":1}', None), ('{"id":1}', None)]
    found = [
        (record["key"], record["value"]) for record in records(rows, **PLAIN, **{"behavior.on.null.values": "ignore"})
    ]
    assert found == [('{"id":1}', '{"id":1,"name":"a"}'), ('{"id":1}', None)]


def test_records_of_a_key_are_in_one_task_in_the_order_of_the_source(spark: SparkSession) -> None:
    # Positions sort as strings, and the order of the offsets differs: 10 is before 9.
    rows = make_rows(spark, *[(offset % 7, f"v{offset}", offset % 3, offset, False, False) for offset in range(200)])
    shuffled = rows.repartition(4, F.hash(C.OFFSET))
    made = encode(shuffled, **PLAIN).withColumn("task", F.spark_partition_id())
    tasks: dict[str, set[int]] = {}
    values: dict[tuple[str, int], list[int]] = {}
    for record in made.collect():
        offset = int(json.loads(record["value"])["name"][1:])
        tasks.setdefault(record["key"], set()).add(record["task"])
        values.setdefault((record["key"], offset % 3), []).append(offset)
    assert len(tasks) == 7
    assert all(len(numbers) == 1 for numbers in tasks.values())
    assert all(offsets == sorted(offsets) for offsets in values.values())
    assert sum(map(len, values.values())) == 200


def test_record_without_a_key_has_none(spark: SparkSession) -> None:
    rows = make_rows(spark, (-1, "a", 0, 1, False, False))
    [record] = records(rows)
    assert record["key"] is None
    [record] = records(rows.drop(KEY), **PLAIN)
    assert record["key"] == '{"id":-1}', "the key of the table, for rows that have no record"


def test_raw_key_and_headers_are_kept(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, 0, 1, False, bytearray(b"\x00\xff"), [("trace", bytearray(b"\x01")), ("none", None)], False, "1")],
        f"id int, {C.PARTITION} int, {C.OFFSET} bigint, {C.TOMBSTONE} boolean, {C.RAW_KEY} binary, "
        f"{C.HEADERS} array<struct<key: string, value: binary>>, {DELETED} boolean, {POSITION} string",
    )
    [record] = records(rows, **PLAIN, **{"keys.format": "bytes", "includeHeaders": True})
    assert (bytes(record["key"]), record["value"]) == (b"\x00\xff", '{"id":1}')
    assert [tuple(header) for header in record["headers"]] == [("trace", b"\x01"), ("none", None)]


def test_values_with_schemas_are_read_back_as_they_were(spark: SparkSession) -> None:
    schema = ", ".join(f"{name} {sql_type}" for name, (sql_type, *_) in COLUMNS.items())
    originals = [tuple(values[row] for _, *values in COLUMNS.values()) for row in range(3)]
    rows = spark.createDataFrame(
        [(*values, 0, offset, False, (values[0],), False, f"{offset}") for offset, values in enumerate(originals)],
        f"{schema}, {_RECORD}, {DELETED} boolean, {POSITION} string",
    )
    made = [
        {"topic": "replica.orders", "offset": number, "key": record["key"].encode(), "value": record["value"].encode()}
        for number, record in enumerate(sorted(records(rows), key=lambda record: record["key"]))
    ]
    assert json.loads(made[0]["key"]) == {
        "schema": {
            "type": "struct",
            "fields": [{"type": "int32", "optional": True, "field": "id"}],
            "optional": False,
            "name": "replica.orders.Key",
        },
        "payload": {"id": 1},
    }
    changes = make_changes(spark, made, dialect=FlatDialect())["orders"]
    found = [[plain(row[name]) for name in COLUMNS] for row in changes.frame.select(*COLUMNS).orderBy("id").collect()]
    assert found == [[plain(value) for value in values] for values in originals]


def test_unavailable_values_are_placeholders(spark: SparkSession) -> None:
    own = f"named_struct('id', 1) {KEY}, 0 {C.PARTITION}, 1L {C.OFFSET}, false {C.TOMBSTONE}, false {DELETED}, '1' {POSITION}"
    row = "named_struct('id', 1, 'doc', string(null))"
    whole = spark.sql(
        f"SELECT {row} before, {row} after, 'u' op, array('before.doc', 'after.doc') {C.UNAVAILABLE}, {own}"
    )
    [record] = records(whole, **PLAIN)
    image = {"id": 1, "doc": PLACEHOLDER}
    assert json.loads(record["value"]) == {"before": image, "after": image, "op": "u"}
    omitted = "1 id, string(null) doc, string(null) bio, binary(null) data"
    flat = spark.sql(f"SELECT {omitted}, array('doc', 'data') {C.UNAVAILABLE}, {own}")
    [record] = records(flat, **PLAIN, **{"unavailable.value.placeholder": "hex:6869"})
    assert record["value"] == '{"id":1,"doc":"hi","bio":null,"data":"aGk="}'
    [record] = records(flat.withColumn(C.UNAVAILABLE, F.lit(None).cast("array<string>")), **PLAIN)
    assert record["value"] == '{"id":1,"doc":null,"bio":null,"data":null}'


def test_placeholders_are_read_as_unavailable_values(spark: SparkSession) -> None:
    types = "string", "binary", "map<string,string>", "array<string>", "array<binary>", "array<bigint>", "array<date>"
    fields = {
        f"c{number}": spark.createDataFrame([], f"c {kind}").schema[0].dataType for number, kind in enumerate(types)
    }
    values = {name: make_placeholder(kind, PLACEHOLDER.encode()) for name, kind in fields.items()}
    row = spark.range(1).select(*[value.alias(name) for name, value in values.items() if value is not None])
    assert {field.name: field.dataType.simpleString() for field in row.schema} == dict(zip(fields, types, strict=True))
    tests = placeholder_tests(fields, PLACEHOLDER)
    assert row.select(*[tests[name](F.col(name)) for name in fields]).first() == (True,) * len(types)


def test_unavailable_value_of_a_type_without_a_placeholder_fails(spark: SparkSession) -> None:
    rows = make_rows(spark, (1, "a", 0, 1, False, False)).withColumn(C.UNAVAILABLE, F.array(F.lit("id")))
    with pytest.raises(Exception, match="headrace-no-placeholder") as raised:
        records(rows, **PLAIN)
    explained = KafkaSink({"bootstrap.servers": "broker:9092"}).explain(raised.value)
    assert isinstance(explained, DataError)
    assert "omits the value of id (int), and Debezium has no placeholder for this type" in str(explained)


def test_keys_of_maps_are_text(spark: SparkSession) -> None:
    from headrace.spark.sessions import Sessions

    session = Sessions(spark, {"spark.sql.session.timeZone": "America/New_York"}).of("kafka")
    rows = session.sql(
        "SELECT map(date'2020-01-01', 1) AS d, array(map(unhex('00ff'), map(date'2020-01-02', 1))) AS b, "
        "named_struct('t', map(timestamp'2020-01-01 00:00:00.5Z', 1), 'n', map(timestamp_ntz'2020-01-01 01:00:00', 1)) AS s, "
        f"map(1, 2) AS i, map(1.10BD, 2) AS c, 0 AS {C.PARTITION}, 1L AS {C.OFFSET}, "
        f"false AS {C.TOMBSTONE}, false AS {DELETED}, '1' AS {POSITION}"
    )
    [record] = encode(rows, Table("shop.orders"), **PLAIN).collect()
    assert json.loads(record["value"]) == {
        "d": {"2020-01-01": 1},
        "b": [{"AP8=": {"2020-01-02": 1}}],
        "s": {"t": {"2020-01-01T00:00:00.5Z": 1}, "n": {"2020-01-01T01:00:00": 1}},
        "i": {"1": 2},
        "c": {"1.10": 2},
    }


def test_times_without_schemas_are_text_in_utc(spark: SparkSession) -> None:
    from headrace.spark.sessions import Sessions

    session = Sessions(spark, {"spark.sql.session.timeZone": "America/New_York"}).of("kafka")
    rows = session.sql(
        "SELECT timestamp'2024-02-29 23:59:59.123456Z' AS moment, timestamp_ntz'2024-02-29 01:02:03' AS local, "
        f"date'2024-02-29' AS day, 1.10BD AS price, 0 AS {C.PARTITION}, 1L AS {C.OFFSET}, false AS {C.TOMBSTONE}, "
        f"false AS {DELETED}, '1' AS {POSITION}"
    )
    [record] = encode(rows, Table("shop.orders"), **PLAIN).collect()
    assert record["value"] == (
        '{"moment":"2024-02-29T23:59:59.123456Z","local":"2024-02-29T01:02:03.000000","day":"2024-02-29","price":1.10}'
    )


AVRO: dict[str, Any] = {"keys.format": "avro", "value.format": "avro", "registry": "http://registry:8081"}


@pytest.fixture
def subjects(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Replace the registry, and return the schemas by subject; test_kafka_sink_avro.py has a real registry."""
    schemas: dict[str, str] = {}

    def register(_: RegisteredAvro, subject: str, schema: str) -> int:
        return 257 + list(schemas | {subject: schemas.setdefault(subject, schema)}).index(subject)

    monkeypatch.setattr(RegisteredAvro, "register", register)
    return schemas


def make_typed_rows(spark: SparkSession) -> tuple[DataFrame, list[tuple[Any, ...]]]:
    """Return rows with the values of all types, and the values."""
    schema = ", ".join(f"{name} {sql_type}" for name, (sql_type, *_) in VALUES.items())
    originals = [tuple(values[row] for _, *values in VALUES.values()) for row in range(3)]
    rows = spark.createDataFrame(
        [(*values, 0, offset, False, (values[0],), False, f"{offset}") for offset, values in enumerate(originals)],
        f"{schema}, {_RECORD}, {DELETED} boolean, {POSITION} string",
    )
    return rows, originals


def test_avro_values_are_read_back_as_they_were(spark: SparkSession, subjects: dict[str, str], tmp_path: Path) -> None:
    rows, originals = make_typed_rows(spark)
    found = sorted(records(rows, **AVRO), key=lambda record: bytes(record["key"]))
    assert [bytes(record["key"]) for record in found] == [b"\0\0\0\1\1\2" + bytes([2 * id_]) for id_ in (1, 2, 3)]
    assert {bytes(record["value"])[:5] for record in found} == {b"\0\0\0\1\2"}
    (tmp_path / "value.avsc").write_text(subjects["replica.orders-value"])
    made = [
        {"topic": "replica.orders", "offset": number, "key": None, "value": bytes(record["value"])[5:]}
        for number, record in enumerate(found)
    ]
    avro = AvroFormat({"schema.file": str(tmp_path / "value.avsc")})
    changes = make_changes(spark, made, dialect=FlatDialect(), value_format=avro, keyed=False)["orders"]
    read = [[plain(row[name]) for name in VALUES] for row in changes.frame.select(*VALUES).orderBy("id").collect()]
    assert read == [[plain(value) for value in values] for values in originals]
    assert [changes.frame.schema[name].dataType for name in VALUES] == [rows.schema[name].dataType for name in VALUES]


def test_avro_of_another_reader_has_the_same_values_in_any_time_zone(
    spark: SparkSession, subjects: dict[str, str]
) -> None:
    from headrace.spark.sessions import Sessions

    session = Sessions(spark, {"spark.sql.session.timeZone": "America/New_York"}).of("kafka")
    rows = session.sql(
        "SELECT timestamp'2024-03-10 07:30:00.123456Z' AS moment, timestamp_ntz'2024-03-10 02:30:00.5' AS local, "
        "date'1500-02-28' AS day, -1.10BD AS price, map(1, array(named_struct('at', timestamp'1969-12-31 23:59:59Z'))) AS deep, "
        f"0 AS {C.PARTITION}, 1L AS {C.OFFSET}, false AS {C.TOMBSTONE}, false AS {DELETED}, '1' AS {POSITION}"
    )
    [record] = encode(rows, Table("shop.orders"), **AVRO).collect()
    assert record["key"] is None
    schema = json.loads(subjects["replica.orders-value"])
    assert fastavro.schemaless_reader(io.BytesIO(bytes(record["value"])[5:]), schema, None) == {
        "moment": "2024-03-10T07:30:00.123456Z",
        "local": datetime(2024, 3, 10, 2, 30, 0, 500000),  # noqa: DTZ001 - the value has no time zone
        "day": date(1500, 2, 28),
        "price": Decimal("-1.10"),
        "deep": {"1": [{"at": "1969-12-31T23:59:59Z"}]},
    }


def test_deletes_and_tombstones_in_avro_have_no_value(spark: SparkSession, subjects: dict[str, str]) -> None:
    rows = make_rows(spark, (1, "a", 0, 1, False, False), (1, None, 0, 2, False, True), (1, None, 0, 3, True, False))
    found = [record["value"] and bytes(record["value"]) for record in records(rows, **AVRO)]
    assert found == [b"\0\0\0\1\2\2\2\2\2a", None, None]
    [record] = records(make_rows(spark, (-1, "a", 0, 1, False, False)), **AVRO)
    assert record["key"] is None
    assert set(subjects) == {"replica.orders-key", "replica.orders-value"}
