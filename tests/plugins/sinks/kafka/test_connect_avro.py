"""Schemas of Kafka Connect's AvroConverter. Spark's types need no session."""

from __future__ import annotations

import json

import fastavro
import pytest
from pyspark.sql import types as T
from tests.support.connect_types import ROW_OF_LEAVES

from headrace_sinks.kafka.connect_avro import describe_record
from headrace_sources.kafka_connect.avro_schema import parse_avro_schema
from headrace_sources.kafka_connect.connect_types import table_type


def test_schema_has_the_shape_of_avro_converter() -> None:
    row = T.StructType(
        [
            T.StructField("id", T.IntegerType(), nullable=False),
            T.StructField("level", T.ShortType()),
            T.StructField("price", T.DecimalType(10, 2)),
            T.StructField("day", T.DateType()),
            T.StructField("moment", T.TimestampType()),
            T.StructField("address", T.StructType([T.StructField("no", T.LongType())])),
        ]
    )

    def optional(name: str, avro_type: object) -> dict[str, object]:
        return {"name": name, "type": ["null", avro_type], "default": None}

    assert describe_record(row, "replica.orders.Value") == {
        "type": "record",
        "name": "Value",
        "namespace": "replica.orders",
        "fields": [
            optional("id", "int"),
            optional("level", {"type": "int", "connect.type": "int16"}),
            optional(
                "price",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 10,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ),
            optional(
                "day",
                {
                    "type": "int",
                    "connect.version": 1,
                    "connect.name": "org.apache.kafka.connect.data.Date",
                    "logicalType": "date",
                },
            ),
            optional(
                "moment", {"type": "string", "connect.version": 1, "connect.name": "io.debezium.time.ZonedTimestamp"}
            ),
            optional(
                "address",
                {
                    "type": "record",
                    "name": "address",
                    "namespace": "replica.orders.Value",
                    "fields": [optional("no", "long")],
                },
            ),
        ],
    }


def test_every_type_is_read_back_as_it_was() -> None:
    tree = T.StructType(
        [
            T.StructField("rows", T.ArrayType(ROW_OF_LEAVES)),
            T.StructField("one", ROW_OF_LEAVES),
            T.StructField("by_name", T.MapType(T.StringType(), T.StructType([T.StructField("one", ROW_OF_LEAVES)]))),
        ]
    )
    for struct in ROW_OF_LEAVES, tree:
        text = json.dumps(describe_record(struct, "replica.orders.Value"))
        assert table_type(parse_avro_schema(text)) == struct
        fastavro.parse_schema(json.loads(text))  # for one, a type with the name of another would be invalid


@pytest.mark.parametrize(
    ("topic", "namespace"), [("shop-1.2024.orders", "shop_1._2024.orders"), ("orders", "orders"), ("..a", "_._.a")]
)
def test_names_of_topics_become_names_of_records(topic: str, namespace: str) -> None:
    schema = describe_record(T.StructType(), f"{topic}.Key")
    assert (schema["namespace"], schema["name"]) == (namespace, "Key")
