"""Classes of a package that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_plugins(package: str, *targets: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which imports the classes that its hooks return as ``module:Class``.

    A pipeline then pays for the plugins that it names alone. The package must not define ``__dir__``: pluggy looks up every
    name that it returns, and would import all classes.
    """
    modules = {
        name: module for paths in targets for module, _, name in (path.partition(":") for path in paths.values())
    }

    def load(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
