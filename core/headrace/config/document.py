"""A YAML file whose every value knows its line, so that an error can say where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from headrace.config.suggest import did_you_mean
from headrace.errors import ConfigError

Location = tuple[Any, ...]


@dataclass
class Document:
    """Plain data, where it came from, and the line (1-based) of each key and item."""

    data: Any
    origin: str
    lines: dict[Location, int] = field(default_factory=dict)

    def where(self, loc: Location) -> str:
        """``pipeline.yaml:12 sink.hudi``, or what of it is known."""
        path = ".".join(str(part) for part in loc)
        line = next((self.lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in self.lines), None)
        origin = f"{self.origin}:{line}" if line else self.origin
        return f"{origin} {path}".rstrip()

    def error(self, loc: Location, what: str, fix: str | None = None) -> ConfigError:
        return ConfigError(what, where=self.where(loc), fix=fix)

    def invalid(self, error: ValidationError, prefix: Location = ()) -> ConfigError:
        """A pydantic error in the words of the file; the first problem is the message, the others follow."""
        problems = [self._problem(item, prefix) for item in error.errors(include_url=False, include_input=False)]
        if len(problems) == 1:
            return problems[0]
        return ConfigError("\n".join([f"{len(problems)} problems", *(f"  {str(p).replace(chr(10), chr(10) + '  ')}" for p in problems)]))

    def _problem(self, item: Any, prefix: Location) -> ConfigError:
        loc = (*prefix, *(part for part in item["loc"] if not _is_pydantic_tag(part)))
        if item["type"] == "unknown_key":
            key, known = item["ctx"]["key"], item["ctx"]["known"]
            return self.error((*loc, key), f"unknown key {key!r}", did_you_mean(key, known))
        if item["type"] == "missing":
            return self.error(loc[:-1], f"{loc[-1]!r} is missing", f"add `{loc[-1]}:`")
        return self.error(loc, item["msg"][0].lower() + item["msg"][1:])


def load(path: str | Path) -> Document:
    """Reads a YAML file. ConfigError when it is not there, not text, or not YAML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(path)!r}", fix="name an existing pipeline file") from None
    except IsADirectoryError:
        raise ConfigError(f"{str(path)!r} is a folder", fix="name the pipeline file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text: {error}", where=str(path), fix="save the file as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path and its permissions") from None
    return parse(text, str(path))


def parse(text: str, origin: str) -> Document:
    """Reads YAML text; ``origin`` is what errors call it."""
    document = Document(None, origin)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            document.data = _build(node, (), document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{origin}:{mark.line + 1}" if mark else origin
        raise ConfigError(f"not valid YAML: {error.problem}", where=where, fix="check the indentation and the quotes there") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {error}", where=origin, fix="check the indentation and the quotes") from None
    return document


def _build(node: yaml.Node, loc: Location, document: Document) -> Any:
    document.lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in built:
                raise document.error((*loc, key), f"the key {key!r} is there twice", "keep one of them")
            document.lines[(*loc, key)] = key_node.start_mark.line + 1
            built[key] = _build(value_node, (*loc, key), document)
        return built
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*loc, i), document) for i, item in enumerate(node.value)]
    constructor = yaml.SafeLoader("")
    return constructor.construct_object(node)  # type: ignore[no-untyped-call]


def _is_pydantic_tag(part: Any) -> bool:
    return isinstance(part, str) and part.startswith(("function-", "tagged-union", "union"))
