"""Connectors of a JSON file: ``{"name": …, "config": {…}}``, a bare configuration, or a list of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.sdk import ConfigError
from headrace_import.connect.class_aliases import expand_aliases
from headrace_import.import_report import Report, write_key
from headrace_import.settings import Settings

_FIX = 'a connector is `{"name": …, "config": {"connector.class": …}}`, or its `config` alone'
#: Keys of an answer of Kafka Connect next to ``name`` and ``config``.
_ANSWER = ("tasks", "type", "initial_state", "status")


def read_connectors(document: Any, file: str, report: Report) -> Iterator[Settings]:
    """Yield the connectors of a JSON document. ConfigError if it is not one."""
    items = document if isinstance(document, list) else [document]
    if not items:
        raise ConfigError("the file has no connector", where=file, fix=_FIX)
    for number, item in enumerate(items, 1):
        where = file if len(items) == 1 else f"{file}[{number}]"
        if not isinstance(item, dict):
            raise ConfigError("not a connector", where=where, fix=_FIX)
        yield _read_connector(item, where, report)


def _read_connector(item: dict[str, Any], where: str, report: Report) -> Settings:
    if "config" not in item:
        return _make_settings(item, where, report, str(item.get("name", "")))
    if not isinstance(item["config"], dict):
        raise ConfigError("`config` is not an object", where=where, fix=_FIX)
    name = str(item.get("name", ""))
    place = f"{where}[{name}]" if name and "[" in where else where
    extra = [key for key in item if key not in ("name", "config")]
    if extra:
        why = "part of an answer of Kafka Connect" if set(extra) <= set(_ANSWER) else "headrace does not know this key"
        Settings(where, dict.fromkeys(extra, ""), report).reject(extra, why)
    return _make_settings(item["config"], place, report, name)


def _make_settings(config: dict[str, Any], place: str, report: Report, name: str) -> Settings:
    if not config.get("connector.class"):
        raise ConfigError("not a connector: it has no `connector.class`", where=place, fix=_FIX)
    options = {}
    for key, value in config.items():
        if isinstance(value, dict | list):
            what = f"the value of `{write_key(key)}` is not a text, number or boolean"
            raise ConfigError(what, where=place, fix="correct the file")
        options[key] = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return Settings(place, expand_aliases(options), report, name=name or str(config.get("name", "")))
