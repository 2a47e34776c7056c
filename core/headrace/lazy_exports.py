"""Lazy re-exports of a package: names that are imported on first use.

A package lists its exports once, for type checkers and for the interpreter::

    if TYPE_CHECKING:
        from package.module import Name as Name

    __getattr__, __dir__ = lazy_exports(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package for the imports of its ``if TYPE_CHECKING:`` block."""

    def get_attribute(name: str) -> Any:
        if name == "__all__":
            return list_names()
        # Python and its tools look for names such as `__path__`; reading the package's source can wait.
        if name.startswith("_") or name not in (exports := read_exports(package)):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(exports[name]), name)

    def list_names() -> list[str]:
        own = (name for name, value in vars(sys.modules[package]).items() if _is_own(name, value, package))
        return sorted({*read_exports(package), *own})

    return get_attribute, list_names


@cache
def read_exports(package: str) -> dict[str, str]:
    """Return exported name → module. Only ``import Name as Name`` exports a name, as type checkers have it."""
    source = sys.modules[package].__loader__.get_source(package)  # type: ignore[union-attr]
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement, alias in _list_imports(block)
        if alias.name == alias.asname
    }


def _list_imports(block: ast.If) -> Iterator[tuple[ast.ImportFrom, ast.alias]]:
    for statement in block.body:
        if isinstance(statement, ast.ImportFrom):
            yield from ((statement, alias) for alias in statement.names)


def _is_own(name: str, value: Any, package: str) -> bool:
    return not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == package
