"""Records of the sink ``kafka`` without a broker: keys, values, order, and the values that headrace reads back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes

from headrace.sdk import changes as C
from headrace.sdk.changes import DELETED, KEY, POSITION
from headrace.sdk.sink import Table
from headrace.testing.tables import VALUES, plain
from headrace_sinks import KafkaSink
from headrace_sinks.kafka.kafka_records import make_records
from headrace_sources.dialects.flat import FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps]

#: Decimals as numbers make the engine plan the batch again, so that they are not read here.
COLUMNS = {name: values for name, values in VALUES.items() if not values[0].startswith("decimal")}
TABLE = Table("shop.orders", ("id",))
_RECORD = f"{C.PARTITION} int, {C.OFFSET} bigint, {C.TOMBSTONE} boolean, {KEY} struct<id: int>"


def records(rows: DataFrame, **options: Any) -> list[Any]:
    """Return the rows as records of a topic, in the order of the tasks."""
    sink = KafkaSink({"bootstrap.servers": "broker:9092", **options})
    return make_records(rows, TABLE, "replica.orders", sink.config).collect()


def make_rows(spark: SparkSession, *rows: tuple[int, str | None, int, int, bool, bool]) -> DataFrame:
    """Return rows of id, name, partition, offset, and whether the record is a tombstone, and a delete."""
    data = [
        (id_, name, partition, offset, is_tombstone, None if id_ < 0 else (id_,), is_deleted, f"{offset}")
        for id_, name, partition, offset, is_tombstone, is_deleted in rows
    ]
    schema = f"id int, name string, {_RECORD}, {DELETED} boolean, {POSITION} string"
    return spark.createDataFrame(data, schema)


PLAIN = {"key.converter.schemas.enable": False, "value.converter.schemas.enable": False}


def test_deletes_and_tombstones_have_no_value(spark: SparkSession) -> None:
    rows = make_rows(spark, (1, "a", 0, 1, False, False), (1, None, 0, 2, False, True), (1, None, 0, 3, True, False))
    found = [(record["key"], record["value"]) for record in records(rows, **PLAIN)]
    assert found == [('{"id":1}', '{"id":1,"name":"a"}'), ('{"id":1}', None), ('{"id":1}', None)]
    found = [
        (record["key"], record["value"]) for record in records(rows, **PLAIN, **{"behavior.on.null.values": "ignore"})
    ]
    assert found == [('{"id":1}', '{"id":1,"name":"a"}'), ('{"id":1}', None)]


def test_records_of_a_key_are_in_one_task_in_the_order_of_the_source(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    # Positions sort as strings, and the order of the offsets differs: 10 is before 9.
    rows = make_rows(spark, *[(offset % 7, f"v{offset}", offset % 3, offset, False, False) for offset in range(200)])
    shuffled = rows.repartition(4, F.hash(C.OFFSET))
    sink = KafkaSink({"bootstrap.servers": "broker:9092", **PLAIN})
    made = make_records(shuffled, TABLE, "replica.orders", sink.config).withColumn("task", F.spark_partition_id())
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


def test_times_without_schemas_are_text_in_utc(spark: SparkSession) -> None:
    from headrace.spark.sessions import Sessions

    session = Sessions(spark, {"spark.sql.session.timeZone": "America/New_York"}).of("kafka")
    rows = session.sql(
        "SELECT timestamp'2024-02-29 23:59:59.123456Z' AS moment, timestamp_ntz'2024-02-29 01:02:03' AS local, "
        f"date'2024-02-29' AS day, 1.10BD AS price, 0 AS {C.PARTITION}, 1L AS {C.OFFSET}, false AS {C.TOMBSTONE}, "
        f"false AS {DELETED}, '1' AS {POSITION}"
    )
    sink = KafkaSink({"bootstrap.servers": "broker:9092", **PLAIN})
    [record] = make_records(rows, Table("shop.orders"), "replica.orders", sink.config).collect()
    assert record["value"] == (
        '{"moment":"2024-02-29T23:59:59.123456Z","local":"2024-02-29T01:02:03.000000","day":"2024-02-29","price":1.10}'
    )
