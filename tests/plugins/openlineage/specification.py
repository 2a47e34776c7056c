"""Check of events against OpenLineage's specification.

The classes of its client are generated from the JSON Schemas of the specification, so a facet must have the fields of the class that its
``_schemaURL`` names. The event itself has a schema here.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import types
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Union, get_args, get_origin, get_type_hints

import attr
import jsonschema
from openlineage.client import generated

_FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {
            "_producer": {"type": "string", "format": "uri"},
            "_schemaURL": {"type": "string", "format": "uri"},
        },
        "required": ["_producer", "_schemaURL"],
    },
}
_TEXT = {"type": "string", "minLength": 1}
_NAMED = {"namespace": _TEXT, "name": _TEXT, "facets": _FACETS}


def _describe_dataset(own: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**_NAMED, own: _FACETS},
        "required": ["namespace", "name"],
        "additionalProperties": False,
    }


EVENT = {
    "type": "object",
    "properties": {
        "eventTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d)$"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {
            "type": "string",
            "pattern": r"^https://openlineage\.io/spec/2-\d-\d/OpenLineage\.json#/\$defs/RunEvent$",
        },
        "run": {
            "type": "object",
            "properties": {
                "runId": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
                "facets": _FACETS,
            },
            "required": ["runId"],
            "additionalProperties": False,
        },
        "job": {
            "type": "object",
            "properties": _NAMED,
            "required": ["namespace", "name"],
            "additionalProperties": False,
        },
        "inputs": {"type": "array", "items": _describe_dataset("inputFacets")},
        "outputs": {"type": "array", "items": _describe_dataset("outputFacets")},
    },
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "additionalProperties": False,
}


def check_event(event: Mapping[str, Any]) -> None:
    """Raise AssertionError or ValidationError for an event that does not have the form of the specification."""
    jsonschema.validate(event, EVENT)
    for part in (event["run"], event["job"], *event.get("inputs", ()), *event.get("outputs", ())):
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in part.get(kind, {}).items():
                _check_facet(name, facet)


def _check_facet(name: str, facet: Mapping[str, Any]) -> None:
    found = re.fullmatch(r"https://openlineage\.io/spec/\S+\.json#/\$defs/(\w+)", facet["_schemaURL"])
    assert found, f"{name}: {facet['_schemaURL']}"
    if found[1] in ("RunFacet", "JobFacet", "DatasetFacet"):
        assert name.startswith("headrace_"), f"{name} is a facet without a schema of its own"
        return
    made = _list_classes()[found[1]]
    assert facet["_schemaURL"] == made._get_schema()
    own = {key: value for key, value in facet.items() if key not in ("_producer", "_schemaURL")}
    _check_object(name, own, made)


def _check_object(place: str, value: Mapping[str, Any], made: Any) -> None:
    hints = get_type_hints(made)
    fields = {
        field.name: field for field in attr.fields(made) if not field.name.startswith("_") and field.name != "producer"
    }
    assert not value.keys() - fields.keys(), f"{place}: unknown fields {value.keys() - fields.keys()}"
    missing = {name for name, field in fields.items() if field.default is attr.NOTHING} - value.keys()
    assert not missing, f"{place}: {missing} missing"
    for name, part in value.items():
        _check_value(f"{place}.{name}", part, hints[name])


def _check_value(place: str, value: Any, kind: Any) -> None:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [part for part in parts if part is not type(None)]
        assert value is not None, f"{place}: null, which the specification does not have"
        _check_value(place, value, kinds[0])
    elif origin is list:
        assert isinstance(value, list), place
        for number, part in enumerate(value):
            _check_value(f"{place}.{number}", part, parts[0])
    elif origin is dict:
        for name, part in value.items():
            _check_value(f"{place}.{name}", part, parts[1])
    elif attr.has(kind):
        _check_object(place, value, kind)
    else:
        assert isinstance(value, kind), f"{place}: {value!r} is not {kind}"


@cache
def _list_classes() -> dict[str, Any]:
    modules = [
        import_module(f"{generated.__name__}.{found.name}") for found in pkgutil.iter_modules(generated.__path__)
    ]
    return {
        name: made for module in modules for name, made in inspect.getmembers(module, inspect.isclass) if attr.has(made)
    }
