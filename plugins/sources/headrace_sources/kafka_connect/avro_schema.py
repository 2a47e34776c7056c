"""Avro schemas that Confluent's and Apicurio's converters write for Kafka Connect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError
from headrace_sources.kafka_connect.connect_schema import (
    DECIMAL,
    PRECISION,
    SCALE,
    ConnectSchema,
    UnusableSchemaError,
    limit_schema,
)
from headrace_sources.kafka_connect.decimals import MAX_PRECISION

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: A record that is being parsed.
_OPEN = ConnectSchema()
#: Attributes with nested schemas. Defaults and names may look like schemas, but are not changed.
_NESTED = ("type", "items", "values", "fields")
#: Avro's logical type → Connect's name for the same values.
_NAMES = {"time-millis": "org.apache.kafka.connect.data.Time"}


@limit_schema
def parse_avro_schema(text: str, *, names: bool = True) -> ConnectSchema:
    """Parse the Avro schema of records that Spark reads with its ``make_reader_schema``.

    Without ``names``, Kafka Connect's names are ignored and only Avro's types count.
    """
    schema = json.loads(text)
    return _parse(schema if names else _drop_names(schema), "", {})


def make_reader_schema(text: str) -> str:
    """Return the Avro schema for Spark's ``from_avro``: without the logical types that ``types`` converts.

    Decimals that fit Spark's type stay: Avro's reader is the fastest for them.
    """
    return json.dumps(_make_reader(json.loads(text)), ensure_ascii=False)


def has_wide_decimal(text: str) -> bool:
    """Return whether an Avro schema has a decimal that is too wide for Spark, which then rejects the schema."""

    def is_wide(schema: Any) -> bool:
        if isinstance(schema, list):
            return any(map(is_wide, schema))
        if not isinstance(schema, dict):
            return False
        is_decimal = schema.get("logicalType") == "decimal"
        return (is_decimal and int(schema["precision"]) > MAX_PRECISION) or any(is_wide(schema.get(k)) for k in _NESTED)

    return is_wide(json.loads(text))


def _drop_names(schema: Any) -> Any:
    """Return the schema without the attributes that Kafka Connect's converters add."""
    if isinstance(schema, list):
        return [_drop_names(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: value for key, value in schema.items() if not key.startswith("connect.")}
    return {key: _drop_names(value) if key in _NESTED else value for key, value in own.items()}


def _parse(schema: Any, namespace: str, named: dict[str, ConnectSchema]) -> ConnectSchema:
    """Parse a schema. ``named``: named types, which an Avro schema defines once and then refers to."""
    if isinstance(schema, list):
        return _parse_union(schema, namespace, named)
    if isinstance(schema, str):
        leaf = _leaf_types().get(schema)
        return ConnectSchema(leaf) if leaf else _resolve_name(schema, namespace, named)
    avro_type, connect_name = schema["type"], schema.get("connect.name")
    if avro_type == "array":
        return ConnectSchema(element=_parse(schema["items"], namespace, named), name=connect_name)
    if avro_type == "map":
        return ConnectSchema(value=_parse(schema["values"], namespace, named), name=connect_name)
    if isinstance(avro_type, str) and (avro_type in ("record", "error") or avro_type in _leaf_types()):
        return _define(schema, namespace, named)
    return _parse(avro_type, namespace, named)


def _define(schema: Mapping[str, Any], namespace: str, named: dict[str, ConnectSchema]) -> ConnectSchema:
    """Parse a record or a leaf, and add it to ``named``."""
    avro_type, full_name = schema["type"], _full_name(schema.get("name", ""), schema.get("namespace", namespace))
    if avro_type in ("record", "error", "enum", "fixed") and full_name in named:
        fix = "give one of them another name or namespace at the source"
        raise DataError(f"the Avro schema defines {full_name!r} twice", fix=fix)
    if avro_type not in ("record", "error"):
        named[full_name] = _parse_leaf(schema)
    else:
        named[full_name] = _OPEN
        inner = full_name.rpartition(".")[0]
        fields = {item["name"]: _parse(item["type"], inner, named) for item in schema["fields"]}
        parameters = schema.get("connect.parameters") or {}
        named[full_name] = ConnectSchema(fields=fields, name=schema.get("connect.name"), parameters=parameters)
    return named[full_name]


def _resolve_name(name: str, namespace: str, named: Mapping[str, ConnectSchema]) -> ConnectSchema:
    schema = named.get(_full_name(name, namespace))
    if schema is None:
        fix = "include the schemas that it refers to"
        raise DataError(f"the Avro schema refers to {name!r}, which is not defined", fix=fix)
    if schema is _OPEN:
        fix = "exclude the topic, or remove the field at the source"
        raise UnusableSchemaError(
            f"the Avro schema has a {name!r} inside a {name!r}, which a table cannot hold", fix=fix
        )
    return schema


def _parse_union(members: list[Any], namespace: str, named: dict[str, ConnectSchema]) -> ConnectSchema:
    """Return Spark's type of a union: its only type besides null, the wider number type, or a struct of all types."""
    from pyspark.sql import types as T

    members = [member for member in members if member != "null"]
    schemas = [_parse(member, namespace, named) for member in members]
    if len(schemas) == 1:
        return schemas[0]
    numbers = {_avro_type(member) for member in members}
    for pair, wide in (({"int", "long"}, T.LongType()), ({"float", "double"}, T.DoubleType())):
        if numbers == pair:  # Spark ignores their logical types.
            return ConnectSchema(wide)
    return ConnectSchema(fields={f"member{i}": schema for i, schema in enumerate(schemas)})


def _avro_type(schema: Any) -> str:
    """Return the Avro type of a member of a union."""
    while isinstance(schema, dict):
        schema = schema["type"]
    return str(schema)


def _parse_leaf(schema: Mapping[str, Any]) -> ConnectSchema:
    from pyspark.sql import types as T

    name, logical = schema.get("connect.name"), _native_logical_type(schema)
    parameters = {key: str(value) for key, value in (schema.get("connect.parameters") or {}).items()}
    if logical == "decimal":
        precision, scale = min(int(schema["precision"]), MAX_PRECISION), int(schema.get("scale", 0))
        return ConnectSchema(T.DecimalType(precision, scale))
    if schema.get("logicalType") == "decimal":
        parameters = {SCALE: str(schema.get("scale", 0)), PRECISION: str(schema["precision"]), **parameters}
        return ConnectSchema(T.BinaryType(), DECIMAL, parameters)
    data_type = _native_logical_types().get(logical) if logical else None
    if data_type is not None:
        return ConnectSchema(data_type)
    name = name or schema.get("connect.type") or _NAMES.get(logical or "")
    return ConnectSchema(_leaf_types()[schema["type"]], name, parameters)


def _native_logical_type(schema: Mapping[str, Any]) -> str | None:
    """Return the logical type if Spark reads it itself."""
    logical: str | None = schema.get("logicalType")
    if logical == "decimal":
        declared = (schema.get("connect.parameters") or {}).get(PRECISION)
        # Converters write 64 if the precision is unknown.
        is_unknown = declared is None and schema.get("connect.name") == DECIMAL
        precision = MAX_PRECISION if is_unknown else int(declared or schema["precision"])
        return logical if precision <= MAX_PRECISION and 0 <= int(schema.get("scale", 0)) <= precision else None
    # Connect's name means a local time, Avro's an instant. A date may be infinite.
    return None if str(schema.get("connect.name", "")).endswith((".Timestamp", ".Date")) else logical


def _make_reader(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_make_reader(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" not in schema and isinstance(schema.get("type"), dict | list):
        # A schema nested in a schema: Avro's libraries in other languages accept it, Java's does not.
        return _make_reader(schema["type"])
    reader = {key: _make_reader(value) if key in _NESTED else value for key, value in schema.items()}
    if "logicalType" in schema:
        if _native_logical_type(schema) is None:
            del reader["logicalType"]
        elif schema["logicalType"] == "decimal":
            reader["precision"] = min(int(schema["precision"]), MAX_PRECISION)
    return reader


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


@cache
def _leaf_types() -> dict[str, DataType]:
    from pyspark.sql import types as T

    return {
        "null": T.NullType(),
        "int": T.IntegerType(),
        "long": T.LongType(),
        "float": T.FloatType(),
        "double": T.DoubleType(),
        "boolean": T.BooleanType(),
        "string": T.StringType(),
        "bytes": T.BinaryType(),
        "enum": T.StringType(),
        "fixed": T.BinaryType(),
    }


@cache
def _native_logical_types() -> dict[str, DataType]:
    """Return Avro's logical types that Spark reads itself."""
    from pyspark.sql import types as T

    timestamp, timestamp_ntz = T.TimestampType(), T.TimestampNTZType()
    return {
        "date": T.DateType(),
        "timestamp-millis": timestamp,
        "timestamp-micros": timestamp,
        "local-timestamp-millis": timestamp_ntz,
        "local-timestamp-micros": timestamp_ntz,
    }
