"""What a pipeline was given in Python: an object of each kind, before anything is asked of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headrace.errors import ConfigError

_FROM_DICT = "Pipeline.from_dict takes names and options, as a file has them"


def check_object(name: str, given: Any, kind: type) -> None:
    """ConfigError when the argument ``name`` is no ``kind``. A value is not shown: it may be secret."""
    if isinstance(given, kind):
        return
    if isinstance(given, type) and issubclass(given, kind):
        raise ConfigError(
            f"it is the class {given.__name__}, and no object of it",
            where=_place(name),
            fix=f"write {given.__name__}(…)",
        )
    what = f"it is no {kind.__name__}, but a {type(given).__name__}"
    raise ConfigError(what, where=_place(name), fix=f"give it an object; {_FROM_DICT}")


def check_objects(name: str, given: Any, kind: type) -> None:
    """The same for an argument that is a list."""
    if isinstance(given, str | Mapping) or not isinstance(given, Collection):
        raise ConfigError(
            f"it is no list, but a {type(given).__name__}", where=_place(name), fix="write it in brackets"
        )
    for number, one in enumerate(given):
        check_object(f"{name}[{number}]", one, kind)


def _place(name: str) -> str:
    return f"Pipeline, {name}"
