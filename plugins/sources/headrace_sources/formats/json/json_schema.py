"""JSON Schema as Confluent's JsonSchemaConverter registers it, back into the schema of Kafka Connect that it was made from.

Its JsonSchemaData says how: ``title`` is the name, ``connect.type`` and ``connect.parameters`` are what JSON Schema has no
word for, ``connect.index`` is a column's place, and what may be null is ``oneOf`` null and the rest.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.sdk import DataError

#: What JSON Schema's own types are where no ``connect.type`` says more, as that converter reads them.
_TYPES = {"integer": "int64", "number": "double", "string": "string", "boolean": "boolean"}


def as_connect(schema: Any) -> dict[str, Any]:
    """The schema block as JsonConverter has it. DataError for a schema that no such block can say."""
    found = _not_null(schema)
    kind, said = found.get("type"), found.get("connect.type")
    block: dict[str, Any] = {"name": found.get("title"), "parameters": found.get("connect.parameters")}
    if said == "map":
        # Keys that are no text make it a list of pairs.
        keys = "string" if kind == "object" else "struct"
        values = as_connect(found.get("additionalProperties")) if kind == "object" else None
        return {**block, "type": "map", "keys": {"type": keys}, "values": values}
    if kind == "object" and isinstance(properties := found.get("properties"), dict):
        blocks = {name: {**as_connect(inner), "field": name} for name, inner in properties.items()}
        places = {name: inner.get("connect.index", i) for i, (name, inner) in enumerate(properties.items())}
        return {**block, "type": "struct", "fields": [blocks[name] for name in sorted(places, key=places.__getitem__)]}
    if kind == "array":
        return {**block, "type": "array", "items": as_connect(found.get("items"))}
    if "enum" in found and kind is None:
        kind = "string"
    if kind in _TYPES:
        return {**block, "type": said or _TYPES[kind]}
    raise _unreadable(schema)


def _not_null(schema: Any) -> dict[str, Any]:
    """The schema of what may be null, without the null."""
    if not isinstance(schema, dict):
        raise _unreadable(schema)
    kind = schema.get("type")
    if isinstance(kind, list):
        members: list[Any] = [{**schema, "type": name} for name in kind]
    else:
        members = schema.get("oneOf") or schema.get("anyOf") or [schema]
    left = [member for member in members if not (isinstance(member, dict) and member.get("type") == "null")]
    if len(left) != 1:
        raise _unreadable(schema)
    return left[0] if left[0] is schema else _not_null(left[0])


def _unreadable(schema: Any) -> DataError:
    text = json.dumps(schema, ensure_ascii=False)
    return DataError(
        f"its JSON Schema has a part that is no column's type: {text if len(text) <= 200 else text[:200] + '…'}",
        fix="leave the topic out, or write the records with Confluent's JsonSchemaConverter",
    )
