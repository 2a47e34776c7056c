"""Registrations: the names that distributions register for their plugins."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pluggy

from headrace.errors import PluginError
from headrace.sdk import hookspecs

#: headrace's own distribution: no other distribution can take one of its plugin names.
OWN = "headrace"
#: Kind of plugin → hook that registers it.
KINDS = {
    "source": "headrace_sources",
    "format": "headrace_formats",
    "dialect": "headrace_dialects",
    "connector": "headrace_connectors",
    "transform": "headrace_transforms",
    "sink": "headrace_sinks",
    "auth": "headrace_auth_providers",
    "catalog": "headrace_catalogs",
    "filesystem": "headrace_filesystems",
    "observer": "headrace_observers",
    "secret": "headrace_secret_providers",
    "command": "headrace_commands",
}


@dataclass(frozen=True)
class Registration:
    """One name that one distribution registered; ``target`` is the object or its ``module:Name``."""

    kind: str
    name: str
    target: Any
    distribution: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} of {self.distribution}"

    @property
    def distribution_name(self) -> str:
        """Name of the distribution, without its version."""
        return name_of(self.distribution)

    @property
    def is_own(self) -> bool:
        """Whether headrace's own distribution registered it."""
        return self.distribution_name == OWN

    @property
    def has_name(self) -> bool:
        """Whether a pipeline file or a command line can contain the name."""
        return self.name.replace("-", "_").replace(".", "_").isidentifier()

    def find_loaded_target(self) -> Any:
        """Return the object if its module is already imported, else None."""
        if not isinstance(self.target, str):
            return self.target
        module, attribute = split_path(self.target)
        with suppress(Exception):
            return getattr(sys.modules.get(module), attribute, None)
        return None


@dataclass(frozen=True)
class Broken:
    """An entry point that could not be loaded, and why."""

    entry_point: str
    distribution: str
    error: BaseException


@dataclass(frozen=True)
class Disabled:
    """A plugin, or an entry point without a ``kind``, that HEADRACE_DISABLE_PLUGINS turned off."""

    kind: str | None
    name: str
    distribution: str


def read_hooks(module: ModuleType | object, distribution: str) -> list[Registration]:
    """Return the registrations of a module's hooks. Raises when a hook is unknown or fails."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    manager.check_pending()
    if not any(getattr(manager.hook, hook).get_hookimpls() for hook in KINDS.values()):
        raise PluginError("it has no hook: decorate a function such as `headrace_sinks` with `@hookimpl`")
    found: list[Registration] = []
    for kind, hook in KINDS.items():
        for implementation in getattr(manager.hook, hook).get_hookimpls():
            names = implementation.function()  # pluggy leaves out a result of None
            found += [Registration(kind, name, target, distribution) for name, target in _read_names(hook, names)]
    return found


def normalize_name(name: str) -> str:
    """Return the normalized spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def name_of(distribution: str) -> str:
    """Return the name in ``name version``."""
    return distribution.partition(" ")[0]


def split_path(target: str) -> tuple[str, str]:
    """Return module and attribute of ``module:Name``; a command's summary may follow after ``|``."""
    module, _, attribute = target.partition("|")[0].partition(":")
    return module, attribute


def _read_names(hook: str, names: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a hook returned; PluginError when it is not a mapping of names."""
    if not isinstance(names, Mapping):
        raise PluginError(f"{hook} returns {type(names).__name__} instead of a mapping of names")
    for name, target in names.items():
        if not isinstance(name, str):
            raise PluginError(f"{hook} returns a name that is not a string: {name!r} ({type(name).__name__})")
        yield name, target
