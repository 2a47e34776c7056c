"""Schemas of Kafka Connect's JsonConverter. Spark's types need no session."""

from __future__ import annotations

from pyspark.sql import types as T
from tests.support.connect_types import ROW_OF_LEAVES

from headrace_sinks.connect_json import describe_schema
from headrace_sources.kafka_connect.connect_schema import parse_connect_schema
from headrace_sources.kafka_connect.connect_types import table_type


def test_schema_has_the_shape_of_json_converter() -> None:
    row = T.StructType(
        [
            T.StructField("id", T.IntegerType(), nullable=False),
            T.StructField("price", T.DecimalType(10, 2)),
            T.StructField("tags", T.ArrayType(T.StringType())),
            T.StructField("notes", T.MapType(T.StringType(), T.LongType())),
        ]
    )
    assert describe_schema(row, optional=False) == {
        "type": "struct",
        "fields": [
            {"type": "int32", "optional": False, "field": "id"},
            {
                "type": "bytes",
                "optional": True,
                "name": "org.apache.kafka.connect.data.Decimal",
                "version": 1,
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "field": "price",
            },
            {"type": "array", "items": {"type": "string", "optional": True}, "optional": True, "field": "tags"},
            {
                "type": "map",
                "keys": {"type": "string", "optional": False},
                "values": {"type": "int64", "optional": True},
                "optional": True,
                "field": "notes",
            },
        ],
        "optional": False,
    }


def test_every_type_is_read_back_as_it_was() -> None:
    tree = T.StructType([T.StructField("rows", T.ArrayType(ROW_OF_LEAVES)), T.StructField("one", ROW_OF_LEAVES)])
    for nested in ROW_OF_LEAVES, tree:
        assert table_type(parse_connect_schema(describe_schema(nested))) == nested
