"""Avro schemas that refer to named types of other schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PRIMITIVE = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = ("record", "enum", "fixed", "error")


def collect_named_types(schema: Any, types: dict[str, Any], namespace: str = "") -> None:
    """Add the named types that a schema defines at its top level to ``types``, by their full names."""
    if isinstance(schema, list):
        for member in schema:
            collect_named_types(member, types, namespace)
    elif isinstance(schema, dict) and schema.get("type") in _NAMED:
        types[_full_name(schema["name"], schema.get("namespace", namespace))] = schema


def inline_named_types(schema: Any, types: dict[str, Any], namespace: str = "") -> Any:
    """Return the schema with each of ``types`` defined where it is named first; those are removed from ``types``."""
    if isinstance(schema, str):
        name = schema if schema in types else _full_name(schema, namespace)
        return inline_named_types(types.pop(name), types) if schema not in _PRIMITIVE and name in types else schema
    if isinstance(schema, list):
        return [inline_named_types(member, types, namespace) for member in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = dict(schema)
    if schema.get("type") in _NAMED:
        full = _full_name(schema["name"], schema.get("namespace", namespace))
        namespace = full.rpartition(".")[0]
    for key in ("type", "items", "values"):
        if key in inner and not (key == "type" and inner[key] in _NAMED):
            inner[key] = inline_named_types(inner[key], types, namespace)
    if "fields" in inner:
        inner["fields"] = [inline_named_types(field, types, namespace) for field in inner["fields"]]
    return inner


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
