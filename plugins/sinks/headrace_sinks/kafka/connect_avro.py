"""Avro of Kafka Connect's AvroConverter, from Spark's ``to_avro``.

Dates have the name of Kafka Connect's type, and timestamps have names of Debezium's types: those of Kafka Connect have milliseconds.
Each field is optional and null by default, so that readers of any version read records of any other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace_sinks.map_keys import convert_nested, format_in_utc

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium.time"
#: Name of a Spark type → Avro's type.
_TYPES: dict[str, Any] = {
    "boolean": "boolean",
    "byte": {"type": "int", "connect.type": "int8"},
    "short": {"type": "int", "connect.type": "int16"},
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "connect.version": 1, "connect.name": f"{_CONNECT}.Date", "logicalType": "date"},
    "timestamp": {"type": "string", "connect.version": 1, "connect.name": f"{_DEBEZIUM}.ZonedTimestamp"},
    "timestamp_ntz": {
        "type": "long",
        "connect.version": 1,
        "connect.name": f"{_DEBEZIUM}.MicroTimestamp",
        # Spark writes milliseconds without it.
        "logicalType": "local-timestamp-micros",
    },
}
#: Types with other values in Avro than in Spark.
_CONVERTED = ("date", "timestamp")


def describe_record(struct: StructType, name: str) -> dict[str, Any]:
    """Return the Avro schema of a struct. ``name``: its full name, whose invalid characters become ``_``."""
    namespace, _, own_name = _adjust_name(name).rpartition(".")
    fields = [
        {"name": field.name, "type": _describe_optional(field.dataType, f"{name}.{field.name}"), "default": None}
        for field in struct
    ]
    return {"type": "record", "name": own_name, "namespace": namespace, "fields": fields}


def _describe_optional(data_type: DataType, name: str) -> list[Any]:
    return ["null", _describe(data_type, name)]


def _describe(data_type: DataType, name: str) -> Any:
    """Return the schema of a type. ``name``: full name of its record. Types that Connect lacks are strings."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return describe_record(data_type, name)
    if isinstance(data_type, T.ArrayType):
        return {"type": "array", "items": _describe_optional(data_type.elementType, name)}
    if isinstance(data_type, T.MapType):
        return {"type": "map", "values": _describe_optional(data_type.valueType, name)}
    if isinstance(data_type, T.DecimalType):
        precision, scale = data_type.precision, data_type.scale
        return {
            "type": "bytes",
            "scale": scale,
            "precision": precision,
            "connect.version": 1,
            "connect.parameters": {"scale": f"{scale}", "connect.decimal.precision": f"{precision}"},
            "connect.name": f"{_CONNECT}.Decimal",
            "logicalType": "decimal",
        }
    return _TYPES.get(data_type.typeName(), "string")


def _adjust_name(name: str) -> str:
    """Return a full name with the characters that Avro allows, as with Debezium's ``schema.name.adjustment.mode: avro``."""
    parts = re.sub(r"[^A-Za-z0-9_.]", "_", name).split(".")
    return ".".join(part if re.match("[A-Za-z_]", part) else f"_{part}" for part in parts)


def convert_values(column: Column, data_type: DataType) -> Column:
    """Convert values to those that ``to_avro`` writes for the schema of their type."""
    return convert_nested(column, data_type, _has_other_values, _convert_value)


def _has_other_values(data_type: DataType) -> bool:
    """Return whether the values of a type, or its keys, are others in Avro than in Spark."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.MapType):
        return not isinstance(data_type.keyType, T.StringType)
    if isinstance(data_type, T.StructType | T.ArrayType | T.DecimalType):
        return False
    return data_type.typeName() in _CONVERTED or data_type.typeName() not in _TYPES


def _convert_value(column: Column, data_type: DataType) -> Column:
    from pyspark.sql import functions as F, types as T

    if isinstance(data_type, T.DateType):
        return F.unix_date(column)
    return format_in_utc(column) if isinstance(data_type, T.TimestampType) else column.cast("string")
