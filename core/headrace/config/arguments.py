"""Types of the arguments of a pipeline that is built in Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headrace.errors import ConfigError

_FROM_DICT = "Pipeline.from_dict takes names and options as in a file"


def check_arguments(
    values: Mapping[str, Any], types: Mapping[str, type], item_types: Mapping[str, type] | None = None
) -> None:
    """Raise ConfigError for the first argument, or item of a list, of another type. Errors show no values: they may be secret."""
    for name, kind in types.items():
        if name not in _OPTIONAL or values[name] is not None:
            _check_object(name, values[name], kind)
    for name, kind in (item_types or {}).items():
        _check_items(name, values[name], kind)


#: Arguments that may be None.
_OPTIONAL = ("value", "key")


def _check_object(name: str, value: Any, kind: type) -> None:
    if isinstance(value, kind):
        return
    if isinstance(value, type) and issubclass(value, kind):
        raise ConfigError(
            f"it is the class {value.__name__} instead of an object",
            where=_where(name),
            fix=f"write {value.__name__}(…)",
        )
    fix = "pass a string" if kind is str else f"pass an object; {_FROM_DICT}"
    raise ConfigError(
        f"must be of type {kind.__name__}, and is of type {type(value).__name__}", where=_where(name), fix=fix
    )


def _check_items(name: str, items: Any, kind: type) -> None:
    if isinstance(items, str | Mapping) or not isinstance(items, Collection):
        raise ConfigError(
            f"must be a list, and is of type {type(items).__name__}", where=_where(name), fix="pass a list"
        )
    for number, item in enumerate(items):
        _check_object(f"{name}[{number}]", item, kind)


def _where(name: str) -> str:
    return f"Pipeline, {name}"
