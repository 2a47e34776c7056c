"""The options of a config model as a reader of YAML meets them: for `docs/options.md` and for the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from headrace.config.json_schema import describe_field
from headrace.sdk.config import Config

_WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    datetime: "time",
    SecretStr: "text, never shown",
    Any: "anything",
}


@dataclass(frozen=True)
class Option:
    """A key of a block. ``kind`` and ``default`` have values in backticks."""

    key: str
    kind: str
    default: str
    text: str


def list_options(model: type[Config]) -> list[Option]:
    """Return a model's options: its own first, then those of its base."""
    fields = sorted(model.model_fields.items(), key=lambda item: item[0] not in model.__annotations__)
    return [
        Option(field.alias or name, _field_kind(field), _default(field), describe_field(field))
        for name, field in fields
    ]


def list_inner_models(model: type[Config]) -> list[type[Config]]:
    """Return the models inside a model, each once."""
    found: dict[type[Config], None] = {}
    for field in model.model_fields.values():
        for inner in _inside(field.annotation):
            found[inner] = None
            found |= dict.fromkeys(list_inner_models(inner))
    return list(found)


def _inside(kind: Any) -> Iterator[type[Config]]:
    if isinstance(kind, type) and issubclass(kind, Config):
        yield kind
    for part in get_args(kind):
        yield from _inside(part)


def _field_kind(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return f"one {extra['x-plugin-block']} plugin" if isinstance(extra, dict) else _kind(field.annotation)


def _kind(kind: Any) -> str:
    """Return the name of a type for readers of YAML."""
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part is not type(None)]
    if origin is Literal:
        return " or ".join(f"`{_yaml(part)}`" for part in parts)
    if origin in (tuple, list):
        return "list of " + {"text": "texts", "mapping": "mappings"}.get(_kind(parts[0]), _kind(parts[0]))
    if origin is dict:
        return "mapping" if parts[1] is Any else f"text → {_kind(parts[1])}"
    if origin is Annotated:
        return _kind(parts[0])
    if parts:
        return " or ".join(map(_kind, parts))
    return _WORDS.get(kind) or str(getattr(kind, "__name__", kind))


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, "", (), {}, []) or isinstance(value, Config):
        return ""
    return f"`{_yaml(value)}`"
