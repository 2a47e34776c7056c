"""Kafka Connect schemas from the JSON Schemas that Confluent's JsonSchemaConverter registers.

The mapping equals the converter's class JsonSchemaData: ``title`` is the name, ``connect.type`` and ``connect.parameters`` extend JSON
Schema, ``connect.index`` is a column's position, and a nullable value is ``oneOf`` null and its schema.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.sdk import DataError
from headrace_sources.kafka_connect.connect_schema import UnusableSchemaError

#: JSON Schema's types without ``connect.type``, as the converter reads them.
_TYPES = {"integer": "int64", "number": "double", "string": "string", "boolean": "boolean"}


def to_connect_block(schema: Any) -> dict[str, Any]:
    """Return the schema block of JsonConverter. DataError for a schema without an equivalent."""
    value = _strip_null(schema)
    json_type, connect_type = value.get("type"), value.get("connect.type")
    block: dict[str, Any] = {"name": value.get("title"), "parameters": value.get("connect.parameters")}
    if connect_type == "map":
        # A map with keys other than strings is a list of pairs.
        keys = "string" if json_type == "object" else "struct"
        values = to_connect_block(value.get("additionalProperties")) if json_type == "object" else None
        return {**block, "type": "map", "keys": {"type": keys}, "values": values}
    if json_type == "object" and isinstance(properties := value.get("properties"), dict):
        blocks = {name: {**to_connect_block(inner), "field": name} for name, inner in properties.items()}
        places = {name: inner.get("connect.index", i) for i, (name, inner) in enumerate(properties.items())}
        return {**block, "type": "struct", "fields": [blocks[name] for name in sorted(places, key=places.__getitem__)]}
    if json_type == "array":
        return {**block, "type": "array", "items": to_connect_block(value.get("items"))}
    if "enum" in value and json_type is None:
        json_type = "string"
    if json_type in _TYPES:
        return {**block, "type": connect_type or _TYPES[json_type]}
    raise _refuse(schema)


def _strip_null(schema: Any) -> dict[str, Any]:
    """Return a nullable schema without its null."""
    if not isinstance(schema, dict):
        raise _refuse(schema)
    json_type = schema.get("type")
    if isinstance(json_type, list):
        members: list[Any] = [{**schema, "type": name} for name in json_type]
    else:
        members = schema.get("oneOf") or schema.get("anyOf") or [schema]
    others = [member for member in members if not (isinstance(member, dict) and member.get("type") == "null")]
    if len(others) != 1:
        raise _refuse(schema)
    if isinstance(others[0], dict) and "$ref" in others[0]:
        raise _refuse(others[0])
    return others[0] if others[0] is schema else _strip_null(others[0])


def _refuse(schema: Any) -> DataError:
    if isinstance(schema, dict) and schema.get("$ref") == "#":
        fix = "exclude the topic, or remove the field at the source"
        return UnusableSchemaError("the JSON Schema contains itself, which a table cannot", fix=fix)
    text = json.dumps(schema, ensure_ascii=False)
    return DataError(
        f"the JSON Schema has a part that is not a column type: {text if len(text) <= 200 else text[:200] + '…'}",
        fix="exclude the topic, or write the records with Confluent's JsonSchemaConverter",
    )
