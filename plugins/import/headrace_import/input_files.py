"""Files to import: text with a known encoding, JSON, and Java properties."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from headrace.sdk import ConfigError
from headrace_import.import_report import write_key

_BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_PAIR = re.compile(r"\s*(?P<key>(?:\\.|[^\\\s=:])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def read_text(path: Path) -> str:
    """Return the text of a file, without a byte order mark. ConfigError if it is no text."""
    where = str(path)
    if path.is_dir():
        files = sorted(item.name for item in path.iterdir() if item.is_file())
        names = f", such as {path / files[0]}" if files else ""
        raise ConfigError("this is a folder", where=where, fix=f"name the files{names}")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            error.strerror or "cannot be read", where=where, fix="check the path and its permissions"
        ) from None
    if encoding := _BYTE_ORDER_MARKS.get(raw[:2]):
        raise ConfigError(f"the file is {encoding}", where=where, fix="save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError("the file is not UTF-8", where=f"{where}, line {line}", fix="save it as UTF-8") from None
    if not text.strip():
        raise ConfigError("the file is empty", where=where, fix="name a configuration file")
    return text


def parse_json(text: str, where: str) -> Any:
    """Return a JSON document. ConfigError with the line, also for a key that an object has twice."""
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _make_object(pairs, where))
    except json.JSONDecodeError as error:
        place = f"{where}, line {error.lineno}, column {error.colno}"
        raise ConfigError(f"not valid JSON: {error.msg}", where=place, fix="correct the file") from None
    except RecursionError:
        raise ConfigError("not a configuration: JSON nested too deeply", where=where, fix="correct the file") from None


def parse_yaml(text: str, where: str) -> Any:
    """Return a YAML document. ConfigError with the line, also for a key that a mapping has twice."""
    try:
        return yaml.load(text, _UniqueKeyLoader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}, line {mark.line + 1}, column {mark.column + 1}" if mark else where
        raise ConfigError(f"not valid YAML: {error.problem}", where=place, fix="correct the file") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError("not valid YAML", where=where, fix="correct the file") from None


def flatten_mapping(mapping: Mapping[str, Any], start: str = "") -> dict[str, str]:
    """Return the scalars of nested mappings by their paths with dots. A list becomes a text with commas."""
    flat: dict[str, str] = {}
    for key, value in mapping.items():
        path = f"{start}{key}"
        if isinstance(value, Mapping):
            flat |= flatten_mapping(value, f"{path}.")
        else:
            flat[path] = write_scalar(value)
    return flat


def write_scalar(value: Any) -> str:
    """Return a value of JSON or YAML as the text of an option."""
    if isinstance(value, list):
        return ",".join(map(write_scalar, value))
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def parse_properties(text: str, where: str) -> dict[str, str]:
    """Return the pairs of a properties file. ConfigError for a key with two different values."""
    pairs: dict[str, str] = {}
    for number, line in _join_lines(text):
        match = _PAIR.fullmatch(line)
        if match is None:
            continue
        key, value = _unescape(match["key"]), _unescape(match["value"]).rstrip()
        if pairs.setdefault(key, value) != value:
            place = f"{where}, line {number}"
            raise ConfigError(f"the file has two values for `{write_key(key)}`", where=place, fix="remove one of them")
    return pairs


class _UniqueKeyLoader(yaml.SafeLoader):
    """Loader that rejects aliases, which may expand without limits, and a key that a mapping has twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - of the base class
        names: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and key.value in names:
                problem = f"the key `{write_key(key.value)}` is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            names |= {key.value} if isinstance(key.value, str) else set()
        return super().construct_mapping(node, deep)


def _make_object(pairs: list[tuple[str, Any]], where: str) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"an object has the key `{write_key(key)}` twice", where=where, fix="remove one of them")
        found[key] = value
    return found


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line with a pair, joined with its continuation lines."""
    start, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if not parts and re.fullmatch(r"\s*(?:[#!].*)?", line):
            continue
        start = start if parts else number
        goes_on = len(line) - len(line.rstrip("\\"))
        parts.append((line.lstrip() if parts else line)[: -1 if goes_on % 2 else None])
        if not goes_on % 2:
            yield start, "".join(parts)
            parts = []
    if parts:
        yield start, "".join(parts)


def _unescape(text: str) -> str:
    special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else special.get(match[2], match[2]), text)
