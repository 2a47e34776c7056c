"""Schemas that a record can contain: invalid parts, and names that cannot be columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace_sources.kafka_connect.avro_schema import parse_avro_schema
from headrace_sources.kafka_connect.connect_schema import (
    DECIMAL,
    UnusableSchemaError,
    drop_bad_names,
    parse_connect_schema,
)


def column(field: Any = "a", **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "field": field, **more}


#: Names that are not strings, or that Java cannot receive.
NAMES: list[Any] = [[], ["x"], {}, 0, "\ud800"]


@pytest.mark.parametrize(
    "part",
    [
        *map(column, (None, 0, 1.5, True, "\ud800")),
        *(column(name=name) for name in NAMES),
        *(column(name=DECIMAL, parameters=parameters) for parameters in ("x", 5, ["scale"])),
        {"type": "map", "keys": {"type": "string"}, "values": column(name=[1]), "field": "m"},
        {"type": "array", "items": {"type": "struct", "fields": [column(5)]}, "field": "l"},
    ],
)
def test_part_of_another_type_makes_a_schema_unusable(part: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchemaError, match="the schema is not valid"):
        parse_connect_schema({"type": "struct", "fields": [part]})


@pytest.mark.parametrize(
    "field",
    [
        {"name": 5, "type": "int"},
        {"name": "a", "type": {"type": "int", "connect.name": ["x"]}},
        {"name": "a", "type": {"type": "record", "name": "I", "connect.parameters": "x", "fields": []}},
        {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": float("inf")}},
        {"name": "a", "type": 5},
        {"type": "int"},
        "a",
    ],
)
def test_part_of_another_type_makes_an_avro_schema_unusable(field: Any) -> None:
    with pytest.raises(UnusableSchemaError, match="the schema is not valid"):
        parse_avro_schema(json.dumps({"type": "record", "name": "R", "fields": [field]}))


def test_names_that_cannot_be_columns_are_left_out() -> None:
    names = ["id", "\u0131d", "ID", "_headrace_op", "_HEADRACE_x", " ", "x" * 256, "a`b", "\u00e9"]
    inner = {"type": "struct", "fields": [column(name) for name in names]}
    schema = parse_connect_schema(
        {
            "type": "struct",
            "fields": [
                column("good"),
                column("_headrace_top"),
                {**inner, "field": "after"},
                {"type": "array", "items": inner, "field": "list"},
                {"type": "map", "keys": {"type": "string"}, "values": inner, "field": "map"},
            ],
        }
    )
    found = drop_bad_names(schema)
    kept = ["id", "ID", "a`b", "\u00e9"]
    own = ["_headrace_op", "_HEADRACE_x"]
    assert found.fields is not None
    assert list(found.fields) == ["good", "after", "list", "map"]
    assert list(found.fields["after"].fields or ()) == kept
    for nested in (found.fields["list"].element, found.fields["map"].value):
        assert nested is not None
        assert sorted(nested.fields or ()) == sorted([*kept, *own])
    assert drop_bad_names(found) is found
