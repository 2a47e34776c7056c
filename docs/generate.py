"""Writes docs/options.md from the config models of everything that headrace itself brings.

::

    python docs/generate.py            # writes it
    python docs/generate.py --check    # fails when it is not what would be written
"""  # noqa: INP001 - a script

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from headrace.config.json_schema import read_comments
from headrace.config.model import PipelineConfig, TableRule
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin
from headrace.sdk.plugins import registry

FILE = Path(__file__).with_name("options.md")
KINDS = {
    "source": "Sources",
    "format": "Formats",
    "transform": "Transforms",
    "dialect": "Dialects",
    "sink": "Sinks",
    "auth": "Auth providers",
    "catalog": "Catalogs",
}
HEAD = """\
# All options

Made by `python docs/generate.py` from the models that check a pipeline file; edit those. `headrace schema` prints the same
as JSON Schema, with the options of every plugin that is installed on your machine.

A key that is not listed, and that no pattern under *passed on* matches, is refused with its line. What is passed on keeps
its own name and meaning: Spark's, Hudi's or Iceberg's documentation has it. Every value may be a reference such as
`${env:NAME}`.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## The pipeline file", *_table(PipelineConfig), "## A rule of `tables:`", *_table(TableRule)]
    for kind, title in KINDS.items():
        parts.append(f"## {title}")
        for name, plugin in _own(kind):
            parts += [f"### {kind} `{name}`", *_block(plugin)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _own(kind: str) -> Iterator[tuple[str, type[Plugin]]]:
    """Plugins of this distribution, in the order of their names; whoever has others installed gets the same page."""
    for item in registry().registrations():
        if item.kind == kind and item.distribution.split(" ")[0] == "headrace":
            yield item.name, registry().get(kind, item.name)


def _block(plugin: type[Plugin]) -> list[str]:
    model = plugin.Config
    said = inspect.cleandoc(model.__doc__ or "") if model is not Config else ""
    parts = [said.replace("``", "`")] if said else []
    if model.model_fields:
        parts += _table(model)
    elif not model.passthrough:
        parts.append("It has no options.")
    if model.passthrough:
        parts.append("Passed on: " + ", ".join(f"`{pattern}`" for pattern in model.passthrough) + ".")
    for inner in _models(model):
        parts += [f"#### {inner.__name__}", inspect.cleandoc(inner.__doc__ or "").replace("``", "`"), *_table(inner)]
    return parts


def _table(model: type[Config]) -> list[str]:
    said = read_comments(model)
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    # A model's own fields first: what it has of its base is said behind them.
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] not in model.__annotations__):
        text = field.description or said.get(name, "")
        cells = [f"`{field.alias or name}`", _field_kind(field), _default(field), text.replace("``", "`")]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return ["\n".join(rows)]


def _models(model: type[Config]) -> list[type[Config]]:
    """The models inside a model, each once."""
    found: dict[type[Config], None] = {}
    for field in model.model_fields.values():
        for inner in _inside(field.annotation):
            found[inner] = None
            found |= dict.fromkeys(_models(inner))
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
    """A type as a reader of YAML calls it."""
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
    return _WORDS.get(kind) or str(kind.__name__)


_WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    datetime: "time",
    SecretStr: "text, never shown",
    Any: "anything",
}


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, "", (), {}, []):
        return ""
    return f"`{_yaml(value)}`"


def main(arguments: list[str]) -> int:
    """Writes the page, or says that it is old."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python docs/generate.py [--check]\n")
        return 2
    text = page()
    if arguments == ["--check"]:
        if FILE.is_file() and FILE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{FILE.name} is not what the models say: run `python docs/generate.py`\n")
        return 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
