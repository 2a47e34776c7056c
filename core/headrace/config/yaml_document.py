"""YAML files with the line of each value, for errors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import ValidationError

from headrace.config_errors import Location, as_config_error, list_problems
from headrace.errors import ConfigError

#: Maximum number of keys and items of a file, including its aliases.
MAX_VALUES = 100_000


_INTEGER, _FLOAT = re.compile(r"[-+]?(0|[1-9][0-9_]*)"), re.compile(r"[-+]?[0-9]+\.[0-9]+")


class WrittenFloat(float):
    """Number of a file. Its text stays as written, because an option such as 1.10 may be a version."""

    _text: str

    def __new__(cls, text: str) -> Self:
        """Return the number of a text."""
        number = super().__new__(cls, text)
        number._text = text
        return number

    def __str__(self) -> str:
        return self._text


@dataclass
class Document:
    """Content of a file as plain data, its name, and the line (1-based) of each key and item."""

    data: Any
    origin: str
    lines: dict[Location, int] = field(default_factory=dict)

    def where(self, loc: Location) -> str:
        """Return ``pipeline.yaml:12 tables.0``, or its known part."""
        path = ".".join(str(part) for part in loc)
        line = next((self.lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in self.lines), None)
        origin = f"{self.origin}:{line}" if line else self.origin
        return f"{origin} {path}".rstrip()

    def error(self, loc: Location, what: str, fix: str | None = None) -> ConfigError:
        return ConfigError(what, where=self.where(loc), fix=fix)

    def invalid(self, error: ValidationError, prefix: Location = ()) -> ConfigError:
        """Return a pydantic error with keys and lines of the file; several problems become one message."""
        return as_config_error(error, self.where, prefix, self.lines)

    def list_problems(self, error: ValidationError, prefix: Location = ()) -> list[ConfigError]:
        """Return the problems of a pydantic error with keys and lines of the file."""
        return list_problems(error, self.where, prefix, self.lines)


def load(path: str | Path) -> Document:
    """Read a YAML file. ConfigError when it does not exist, is not text, or is not YAML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(path)!r}", fix="name an existing pipeline file") from None
    except IsADirectoryError:
        raise ConfigError(f"{str(path)!r} is a folder", fix="name the pipeline file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text: {error}", where=str(path), fix="save the file as UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=str(path), fix="check the path and its permissions"
        ) from None
    return parse(text, str(path))


def parse(text: str, origin: str) -> Document:
    """Read YAML text; ``origin`` is its name in errors."""
    document = Document(None, origin)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            document.data = _build(node, (), document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{origin}:{mark.line + 1}" if mark else origin
        what = f"{error.context}, {error.problem}" if (error.problem or "").startswith("but ") else error.problem
        raise ConfigError(
            f"not valid YAML: {what}", where=where, fix="check the indentation and the quotes there"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(
            f"not valid YAML: {error}", where=origin, fix="check the indentation and the quotes"
        ) from None
    except RecursionError:
        raise ConfigError(
            "it is nested too deeply, or contains itself", where=origin, fix="write it out without `*` aliases"
        ) from None
    return document


def _build(node: yaml.Node, loc: Location, document: Document) -> Any:
    document.lines.setdefault(loc, node.start_mark.line + 1)
    if len(document.lines) > MAX_VALUES:  # nested aliases expand to millions of values
        raise document.error(loc, f"it has more than {MAX_VALUES:,} values", "write it out without `*` aliases")
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                what = "a key is a list or a mapping, as in `{{ NAME }}` without quotes"
                raise document.error(loc, what, "put the text in quotes")
            key = str(key_node.value)
            line, first = key_node.start_mark.line + 1, document.lines.get((*loc, key))
            document.lines[(*loc, key)] = line
            if key in mapping:
                raise document.error(
                    (*loc, key), f"the key {key!r} is duplicate, first in line {first}", "keep one of them"
                )
            mapping[key] = _build(value_node, (*loc, key), document)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*loc, i), document) for i, item in enumerate(node.value)]
    return _build_scalar(node, loc, document)


def _build_scalar(node: yaml.Node, loc: Location, document: Document) -> Any:
    try:
        value = yaml.SafeLoader("").construct_object(node)
    except (ValueError, LookupError, AttributeError) as error:  # it looks like a date or a number, but is invalid
        reason = f": {error}" if isinstance(error, ValueError) else f" as {node.tag.rpartition(':')[2]}"
        raise document.error(
            loc, f"{node.value[:50]!r} is not valid{reason}", "put it in quotes if it is text"
        ) from None
    if isinstance(value, bool) and node.value.lower() not in ("true", "false"):
        return node.value  # ``off`` or ``no`` may be the value of an option. Boolean options accept these strings.
    is_sexagesimal = isinstance(value, float) and ":" in node.value
    if is_sexagesimal or (type(value) is int and not _INTEGER.fullmatch(node.value)):  # or octal, or hexadecimal
        fix = f"put it in quotes if it is text, or write {value}"
        raise document.error(loc, f"YAML reads {node.value[:50]!r} as the number {value}", fix)
    if isinstance(value, date):  # Options are texts, and the text of a date in Python is another one.
        return node.value
    return WrittenFloat(node.value) if _FLOAT.fullmatch(node.value) and isinstance(value, float) else value
