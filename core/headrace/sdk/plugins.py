"""Which plugins there are: found through entry points, imported on first use.

A broken distribution, a duplicate name or another API version hurts only who asks for that plugin by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import pluggy

from headrace.errors import PluginError
from headrace.sdk import hookspecs
from headrace.suggestions import did_you_mean

GROUP = "headrace"
#: Kind → hook.
KINDS = {
    "source": "headrace_sources",
    "format": "headrace_formats",
    "dialect": "headrace_dialects",
    "transform": "headrace_transforms",
    "sink": "headrace_sinks",
    "auth": "headrace_auth_providers",
    "secret": "headrace_secret_providers",
    "command": "headrace_commands",
}
#: Kind → the class that its plugins derive from. Imported on use, for pydantic comes with it: the names alone are known
#: without.
_BASES = {
    "source": "headrace.sdk.source:Source",
    "format": "headrace.sdk.format:Format",
    "dialect": "headrace.sdk.dialect:Dialect",
    "transform": "headrace.sdk.transform:Transform",
    "sink": "headrace.sdk.sink:Sink",
    "auth": "headrace.sdk.auth:AuthProvider",
}


@dataclass(frozen=True)
class Registration:
    """One name that one distribution registered; ``target`` is the object or its ``module:Name``."""

    kind: str
    name: str
    target: Any
    distribution: str


@dataclass(frozen=True)
class Broken:
    """An entry point that could not be loaded, and why."""

    entry_point: str
    distribution: str
    error: Exception


class Registry:
    """All registrations of this process."""

    def __init__(self) -> None:
        self._registrations: list[Registration] = []
        self.broken: list[Broken] = []

    @classmethod
    def from_entry_points(cls) -> Registry:
        """Everything installed. One distribution that fails does not hide the others."""
        registry = cls()
        for entry_point in sorted(entry_points(group=GROUP), key=lambda e: (_distribution(e), e.name)):
            try:
                registry.register(entry_point.load(), _distribution(entry_point))
            except Exception as error:  # noqa: BLE001 - whatever a plugin raises, it is recorded
                registry.broken.append(Broken(entry_point.name, _distribution(entry_point), error))
        return registry

    def register(self, module: ModuleType | object, distribution: str) -> None:
        """Adds what the hooks of a module return. Raises when one is unknown or fails: then nothing is added."""
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(module)
        manager.check_pending()
        found: list[Registration] = []
        for kind, hook in KINDS.items():
            for mapping in getattr(manager.hook, hook)():
                found += [Registration(kind, name, target, distribution) for name, target in mapping.items()]
        self._registrations += found

    def names(self, kind: str) -> list[str]:
        return sorted({r.name for r in self._registrations if r.kind == kind})

    def registrations(self) -> Iterator[Registration]:
        yield from sorted(self._registrations, key=lambda r: (list(KINDS).index(r.kind), r.name, r.distribution))

    def get(self, kind: str, name: str) -> Any:
        """The class or function of that name, imported. PluginError says what is wrong with it."""
        found = [r for r in self._registrations if r.kind == kind and r.name == name]
        if not found:
            raise PluginError(f"there is no {kind} {name!r}", fix=self._fix(kind, name))
        if len(found) > 1:
            who = " and ".join(r.distribution for r in found)
            raise PluginError(f"the {kind} {name!r} is registered twice, by {who}", fix="uninstall one of them")
        return self._load(found[0])

    def all(self, kind: str) -> list[tuple[str, Any]]:
        """Every plugin of a kind that works, by name."""
        working = []
        for name in self.names(kind):
            try:
                working.append((name, self.get(kind, name)))
            except PluginError:
                continue
        return working

    def _load(self, registration: Registration) -> Any:
        what = f"the {registration.kind} {registration.name!r} of {registration.distribution}"
        if not registration.name.replace("-", "_").replace(".", "_").isidentifier():
            raise PluginError(f"{what} has no name that a file could say", fix="use letters, digits, `_`, `-` and `.`")
        target = registration.target
        if isinstance(target, str):
            module, _, attribute = target.partition("|")[0].partition(":")
            try:
                target = getattr(importlib.import_module(module), attribute)
            except Exception as error:
                fix = (
                    "pip install 'headrace[spark]'"
                    if _lacks_pyspark(error)
                    else "see the error above; reinstall or report it"
                )
                raise PluginError(f"{what} cannot be imported: {type(error).__name__}: {error}", fix=fix) from error
        if registration.kind in _BASES:
            _check_class(what, target, _BASES[registration.kind])
        return target

    def _fix(self, kind: str, name: str) -> str:
        fix = did_you_mean(name, self.names(kind))
        if self.broken:
            fix += "; not loaded: " + ", ".join(
                f"{b.distribution} ({type(b.error).__name__}: {b.error})" for b in self.broken
            )
        return fix


@cache
def registry() -> Registry:
    """The registry of this process, read from the entry points once."""
    return Registry.from_entry_points()


def _distribution(entry_point: EntryPoint) -> str:
    return f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist else "unknown"


def _check_class(what: str, target: Any, base: str) -> None:
    from headrace.sdk.plugin import API_VERSION

    module, _, name = base.partition(":")
    if not (isinstance(target, type) and issubclass(target, getattr(importlib.import_module(module), name))):
        raise PluginError(f"{what} is not a {name}: {target!r}", fix=f"derive its class from {module}.{name}")
    version = getattr(target, "api_version", None)
    if version is None:
        raise PluginError(
            f"{what} does not say which plugin API it was written for", fix=f"give it `api_version = {API_VERSION}`"
        )
    if version != API_VERSION:
        raise PluginError(
            f"{what} was written for plugin API {version}, this headrace has {API_VERSION}",
            fix="upgrade the older one of the two",
        )


def _lacks_pyspark(error: BaseException) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "pyspark"
