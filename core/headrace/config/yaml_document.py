"""YAML files with the line of each value, for errors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.suggestions import did_you_mean

Location = tuple[Any, ...]

#: Parts of a pydantic location that are not in the file.
_TAG = re.compile(r"(?:function-\w+|tagged-union|union|nullable|literal)\[.*\]|\[key\]")
#: The same for a value of one of several types.
_TYPE = re.compile(r"str|int|float|bool|(?:list|dict|tuple)\[.*\]")


#: Maximum number of keys and items of a file, including its aliases.
MAX_VALUES = 100_000


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
        by_place: dict[str | None, list[ConfigError]] = {}
        for item in error.errors(include_url=False, include_input=False):
            problem = self._problem(item, prefix)
            by_place.setdefault(problem.where, []).append(problem)
        problems = [errors[0] if len(errors) == 1 else _join_alternatives(errors) for errors in by_place.values()]
        if len(problems) == 1:
            return problems[0]
        return ConfigError(
            "\n".join(
                [f"{len(problems)} problems", *(f"  {str(p).replace(chr(10), chr(10) + '  ')}" for p in problems)]
            )
        )

    def _problem(self, item: Any, prefix: Location) -> ConfigError:
        loc = prefix
        for part in item["loc"]:
            if not (isinstance(part, str) and (_TAG.fullmatch(part) or self._is_type(part, loc))):
                loc = (*loc, part)
        if item["type"] == "unknown_key":
            key, known = item["ctx"]["key"], item["ctx"]["known"]
            return self.error((*loc, key), f"unknown key {key!r}", did_you_mean(key, known))
        if item["type"] == "explained_key":
            return self.error((*loc, item["ctx"]["key"]), item["ctx"]["what"], item["ctx"]["fix"])
        if item["type"] == "missing":
            return self.error(loc[:-1], f"{loc[-1]!r} is missing", f"add `{loc[-1]}:`")
        return self.error(loc, *_explain(item))

    def _is_type(self, part: str, loc: Location) -> bool:
        return _TYPE.fullmatch(part) is not None and (*loc, part) not in self.lines


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
    try:
        return yaml.SafeLoader("").construct_object(node)
    except ValueError as error:  # it looks like a date or a number, but is invalid
        raise document.error(loc, f"{node.value!r} is not valid: {error}", "put it in quotes if it is text") from None


def _explain(item: Any) -> tuple[str, str | None]:
    """Return message and fix in the terms of YAML instead of pydantic's."""
    if item["type"] == "value_error":
        return str(item["ctx"]["error"]), None
    if item["type"] == "string_type":
        return "must be text", "put it in quotes"
    if item["type"] in ("dict_type", "model_type"):
        return "must be a mapping of keys", "write its keys below it, indented"
    if item["type"] in ("tuple_type", "list_type"):
        return "must be a list", "put a '-' before each item"
    message = item["msg"].replace("Input should be", "must be", 1)
    return message[0].lower() + message[1:], "see `headrace schema` for valid values"


def _join_alternatives(problems: list[ConfigError]) -> ConfigError:
    """Return one error for a value that has none of several types, or several problems."""
    if not all(problem.what.startswith("must be ") for problem in problems):
        fix = "; ".join(problem.fix for problem in problems if problem.fix)
        return ConfigError("; ".join(problem.what for problem in problems), where=problems[0].where, fix=fix or None)
    whats = [problem.what.removeprefix("must be ") for problem in problems]
    fixes = [problem.fix for problem in problems if problem.fix]
    return ConfigError("must be " + " or ".join(whats), where=problems[0].where, fix=", or ".join(fixes) or None)
