"""Which plugins there are: found through entry points, imported on first use.

A broken distribution, a duplicate name or another API version hurts only who asks for that plugin by name. What is turned off by
HEADRACE_DISABLE_PLUGINS is not even imported.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from headrace.errors import HeadraceError, PluginError
from headrace.sdk import hookspecs
from headrace.sdk.plugin_checks import check_target
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from headrace.sdk.plugin import Plugin

GROUP = "headrace"
#: The distribution whose names nobody else can take.
OWN = "headrace"
#: The variable that turns plugins off: names of plugins and of distributions, with commas.
DISABLE = "HEADRACE_DISABLE_PLUGINS"
#: Kind → hook.
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
        return _name_of(self.distribution)

    @property
    def is_own(self) -> bool:
        return self.distribution_name == OWN

    @property
    def has_name(self) -> bool:
        """Whether a file or a command line could say its name."""
        return self.name.replace("-", "_").replace(".", "_").isidentifier()

    def known_schemas(self) -> Any:
        """The object itself, where its module is imported already; else None."""
        if not isinstance(self.target, str):
            return self.target
        module, _, attribute = _split_path(self.target)
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
    """What HEADRACE_DISABLE_PLUGINS turned off: a plugin, or an entry point of a distribution, which has no ``kind``."""

    kind: str | None
    name: str
    distribution: str


class PluginRegistry:
    """All registrations of this process. ``disable``: names of plugins and distributions that are turned off."""

    def __init__(self, disable: Collection[str] = ()) -> None:
        self._registrations: list[Registration] = []
        self._disable = {normalize_name(name) for name in disable}
        self.broken: list[Broken] = []
        self.disabled: list[Disabled] = []

    @classmethod
    def from_entry_points(cls) -> PluginRegistry:
        """Everything installed. One distribution that fails does not hide the others."""
        registry = cls([name for name in os.environ.get(DISABLE, "").split(",") if name.strip()])
        for entry_point in sorted(entry_points(group=GROUP), key=lambda e: (_distribution(e), e.name)):
            registry._load_entry_point(entry_point, _distribution(entry_point))
        return registry

    def _load_entry_point(self, entry_point: EntryPoint, distribution: str) -> None:
        if normalize_name(_name_of(distribution)) in self._disable:
            self.disabled.append(Disabled(None, entry_point.name, distribution))
            return
        try:
            self.register(entry_point.load(), distribution)
        except BaseException as error:
            if _is_interrupt(error):
                raise
            self.broken.append(Broken(entry_point.name, distribution, error))

    def register(self, module: ModuleType | object, distribution: str) -> None:
        """Adds what the hooks of a module return. Raises when one is unknown or fails: then nothing is added."""
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(module)
        manager.check_pending()
        found: list[Registration] = []
        for kind, hook in KINDS.items():
            for names in getattr(manager.hook, hook)():
                found += [Registration(kind, name, target, distribution) for name, target in _read_names(hook, names)]
        for item in found:
            if normalize_name(item.name) in self._disable:
                self.disabled.append(Disabled(item.kind, item.name, distribution))
            else:
                self._registrations.append(item)

    def names(self, kind: str) -> list[str]:
        return sorted({r.name for r in self._registrations if r.kind == kind})

    def registrations(self) -> Iterator[Registration]:
        yield from sorted(self._registrations, key=lambda r: (list(KINDS).index(r.kind), r.name, r.distribution))

    def find(self, kind: str, name: str) -> Registration:
        """Who has that name: headrace itself before others. PluginError when nobody has it."""
        found = self._claims(kind, name)
        if found:
            return found[0]
        for item in self.disabled:
            if (item.kind, item.name) == (kind, name):
                what = f"the {kind} {name!r} of {item.distribution} is turned off"
                raise PluginError(what, fix=f"take it out of {DISABLE}")
        raise PluginError(f"there is no {kind} {name!r}", fix=self._fix(kind, name))

    def get(self, kind: str, name: str) -> Any:
        """The class or function of that name, imported. PluginError says what is wrong with it."""
        return self.load(self.find(kind, name))

    def all(self, kind: str) -> list[tuple[str, Any]]:
        """Every plugin of a kind that works, by name."""
        working = []
        for name in self.names(kind):
            with suppress(PluginError):
                working.append((name, self.get(kind, name)))
        return working

    def load(self, item: Registration) -> Any:
        """What was registered, imported and looked at. PluginError says what is wrong with it."""
        if not item.has_name:
            raise PluginError(f"{item} has no name that a file could say", fix="use letters, digits, `_`, `-` and `.`")
        self._check_claim(item)
        target = item.target
        if isinstance(target, str):
            module, _, attribute = _split_path(target)
            with as_plugin_error(f"{item} cannot be imported"):
                target = getattr(importlib.import_module(module), attribute)
        with as_plugin_error(f"{item} cannot be looked at", PluginError):
            check_target(item, target)
        return target

    def distribution_of(self, plugin: Plugin) -> str | None:
        """The name of the distribution that registered a plugin's class; None when none did."""
        return next((r.distribution_name for r in self._registrations if r.known_schemas() is type(plugin)), None)

    def _claims(self, kind: str, name: str) -> list[Registration]:
        """All who registered a name, headrace itself first."""
        found = (r for r in self._registrations if (r.kind, r.name) == (kind, name))
        return sorted(found, key=lambda r: (not r.is_own, r.distribution))

    def _check_claim(self, item: Registration) -> None:
        """A name of headrace's own is headrace's; any other that two have is nobody's."""
        claims = self._claims(item.kind, item.name)
        if any(claim.is_own for claim in claims):
            if not item.is_own:
                raise PluginError(f"{item} is called like one of headrace's", fix="give it another name")
            claims = [claim for claim in claims if claim.is_own]
        if len(claims) > 1:
            raise PluginError(
                f"the {item.kind} {item.name!r} is registered twice, by {' and '.join(c.distribution for c in claims)}",
                fix=f"uninstall one of them, or turn it off: {DISABLE}={claims[-1].distribution_name}",
            )

    def _fix(self, kind: str, name: str) -> str:
        fix = did_you_mean(name, self.names(kind))
        if self.broken:
            fix += "; not loaded: " + ", ".join(f"{b.distribution} ({describe_error(b.error)})" for b in self.broken)
        if away := sorted({item.distribution for item in self.disabled if item.kind is None}):
            fix += f"; turned off by {DISABLE}: {', '.join(away)}"
        return fix

    @property
    def unknown_disabled(self) -> list[str]:
        """What HEADRACE_DISABLE_PLUGINS names and nothing that is installed is called."""
        met = {normalize_name(part) for item in self.disabled for part in (item.name, _name_of(item.distribution))}
        return sorted(self._disable - met)


@cache
def registry() -> PluginRegistry:
    """The registry of this process, read from the entry points once."""
    return PluginRegistry.from_entry_points()


@contextmanager
def as_plugin_error(what: str, *but: type[BaseException]) -> Iterator[None]:
    """Whatever a plugin raises inside becomes a PluginError that begins with ``what``; ``but``: what stays as it is.

    So does a user's Ctrl-C. An exit is none: a plugin may not end the program that looks at it.
    """
    try:
        yield
    except but:
        raise
    except BaseException as error:
        if _is_interrupt(error):
            raise
        fix = (
            "pip install 'headrace[spark]'" if _lacks_pyspark(error) else "see the error above; reinstall or report it"
        )
        raise PluginError(f"{what}: {describe_error(error)}", fix=fix) from error


def describe_error(error: BaseException) -> str:
    """Kind and text of an error that anybody may have written; headrace's own by their sentence."""
    if isinstance(error, HeadraceError):
        return error.what
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an error without a text is still told
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def try_construction(item: Registration, plugin: type[Plugin]) -> None:
    """Builds a plugin as its block would without options: nothing runs at construction. PluginError for what it raises."""
    from pydantic import ValidationError

    with as_plugin_error(f"{item} cannot be built"):
        try:
            config = plugin.Config()
        except ValidationError:  # some have to be given
            config = plugin.Config.model_construct()
        try:
            plugin(config)
        except AttributeError as error:
            if error.obj is not config:  # else it reads one of those
                raise


def normalize_name(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _is_interrupt(error: BaseException) -> bool:
    """Whether it is a user's Ctrl-C: nobody derives from that by chance."""
    return type(error) is KeyboardInterrupt


def _distribution(entry_point: EntryPoint) -> str:
    try:
        return f"{entry_point.dist.name} {entry_point.dist.version}"  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - its metadata are not there, or damaged
        return "unknown"


def _name_of(distribution: str) -> str:
    """The name in ``name version``."""
    return distribution.partition(" ")[0]


def _split_path(target: str) -> tuple[str, str, str]:
    """``module:Name``; behind a ``|`` stands what a command does."""
    return target.partition("|")[0].partition(":")


def _read_names(hook: str, names: Any) -> Iterator[tuple[str, Any]]:
    """What a hook returned; PluginError when it is not what hooks return."""
    if not isinstance(names, Mapping):
        raise PluginError(f"{hook} returns no mapping of names but {type(names).__name__}")
    for name, target in names.items():
        if not isinstance(name, str):
            raise PluginError(f"{hook} returns a name that is no text but {type(name).__name__}: {name!r}")
        yield name, target


def _lacks_pyspark(error: BaseException) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "pyspark"
