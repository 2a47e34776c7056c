"""Registry of plugins: entry points are read once, plugins are imported on first use.

A broken distribution, a duplicate name or an unsupported API version affects only lookups of that plugin. What
HEADRACE_DISABLE_PLUGINS turns off is not imported.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headrace.errors import PluginError
from headrace.registry.entry_points import list_entry_points
from headrace.registry.plugin_errors import as_plugin_error, describe_error, is_interrupt
from headrace.registry.registration import (
    KINDS,
    Broken,
    Disabled,
    Registration,
    name_of,
    normalize_name,
    read_hooks,
    split_path,
)
from headrace.registry.validation import check_target
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from headrace.sdk.plugin import Plugin

#: Environment variable that disables plugins: names of plugins and of distributions, with commas.
DISABLE = "HEADRACE_DISABLE_PLUGINS"


class PluginRegistry:
    """Registry of all plugins of this process. ``disable``: names of plugins and distributions to ignore."""

    def __init__(self, disable: Collection[str] = ()) -> None:
        self._registrations: list[Registration] = []
        self._disable = {normalize_name(name) for name in disable}
        self.broken: list[Broken] = []
        self.disabled: list[Disabled] = []

    @classmethod
    def from_entry_points(cls) -> PluginRegistry:
        """Return the registry of all installed plugins. A broken distribution does not hide the others."""
        registry = cls([name for name in os.environ.get(DISABLE, "").split(",") if name.strip()])
        for entry_point, distribution in list_entry_points():
            registry._load_entry_point(entry_point, distribution)
        return registry

    def _load_entry_point(self, entry_point: EntryPoint, distribution: str) -> None:
        if normalize_name(name_of(distribution)) in self._disable:
            self.disabled.append(Disabled(None, entry_point.name, distribution))
            return
        try:
            self.register(entry_point.load(), distribution)
        except BaseException as error:
            if is_interrupt(error):
                raise
            self.broken.append(Broken(entry_point.name, distribution, error))

    def register(self, module: ModuleType | object, distribution: str) -> None:
        """Add the registrations of a module's hooks. Raises when a hook is unknown or fails; then nothing is added."""
        for item in read_hooks(module, distribution):
            if normalize_name(item.name) in self._disable:
                self.disabled.append(Disabled(item.kind, item.name, distribution))
            else:
                self._registrations.append(item)

    def names(self, kind: str) -> list[str]:
        return sorted({r.name for r in self._registrations if r.kind == kind})

    def registrations(self) -> Iterator[Registration]:
        yield from sorted(self._registrations, key=lambda r: (list(KINDS).index(r.kind), r.name, r.distribution))

    def find(self, kind: str, name: str) -> Registration:
        """Return the registration of that name, headrace's own first. PluginError when there is none."""
        found = self._claims(kind, name)
        if found:
            return found[0]
        for item in self.disabled:
            if (item.kind, item.name) == (kind, name):
                what = f"the {kind} {name!r} of {item.distribution} is disabled"
                raise PluginError(what, fix=f"remove it from {DISABLE}")
        raise PluginError(f"unknown {kind} {name!r}", fix=self._fix(kind, name))

    def get(self, kind: str, name: str) -> Any:
        """Return the class or function with that name, imported. PluginError when it is missing or invalid."""
        return self.load(self.find(kind, name))

    def all(self, kind: str) -> list[tuple[str, Any]]:
        """Return all valid plugins of a kind, sorted by name."""
        working = []
        for name in self.names(kind):
            with suppress(PluginError):
                working.append((name, self.get(kind, name)))
        return working

    def load(self, item: Registration) -> Any:
        """Return the registered object, imported and validated. PluginError when it is invalid."""
        if not item.has_name:
            raise PluginError(f"{item} has an invalid name", fix="use letters, digits, `_`, `-` and `.`")
        self._check_claim(item)
        target = item.target
        if isinstance(target, str):
            module, attribute = split_path(target)
            with as_plugin_error(f"{item} cannot be imported"):
                target = getattr(importlib.import_module(module), attribute)
        with as_plugin_error(f"{item} cannot be inspected", PluginError):
            check_target(item, target)
        return target

    def build(self, item: Registration) -> Any:
        """Return a plugin of a registered class, without options. PluginError when it is invalid or cannot be built."""
        kind = self.load(item)
        with as_plugin_error(f"{item} cannot be built"):
            return kind()

    def find_unusable(self, kind: str) -> list[str]:
        """Return why plugins of a kind cannot be used. A distribution that cannot be loaded may have plugins of any kind."""
        reasons = []
        for item in self.registrations():
            if item.kind == kind:
                try:
                    self.build(item)
                except PluginError as error:
                    reasons.append(error.what)
        return [*reasons, *(f"{b.distribution} cannot be loaded: {describe_error(b.error)}" for b in self.broken)]

    def distribution_of(self, plugin: Plugin) -> str | None:
        """Return the name of the distribution that registered a plugin's class, headrace's own first; None when there is none."""
        found = (r for r in self._registrations if r.find_loaded_target() is type(plugin))
        first = min(found, key=lambda r: not r.is_own, default=None)
        return first.distribution_name if first else None

    def _claims(self, kind: str, name: str) -> list[Registration]:
        """Return all registrations of a name, headrace's own first."""
        found = (r for r in self._registrations if (r.kind, r.name) == (kind, name))
        return sorted(found, key=lambda r: (not r.is_own, r.distribution))

    def _check_claim(self, item: Registration) -> None:
        """Reject a name that another distribution has: headrace's own names are reserved, others must be unique."""
        claims = self._claims(item.kind, item.name)
        if any(claim.is_own for claim in claims):
            if not item.is_own:
                raise PluginError(f"{item} has the name of one of headrace's plugins", fix="choose another name")
            claims = [claim for claim in claims if claim.is_own]
        if len(claims) > 1:
            raise PluginError(
                f"the {item.kind} {item.name!r} is registered twice, by {' and '.join(c.distribution for c in claims)}",
                fix=f"uninstall one of them, or disable it: {DISABLE}={claims[-1].distribution_name}",
            )

    def _fix(self, kind: str, name: str) -> str:
        fix = did_you_mean(name, self.names(kind))
        if self.broken:
            fix += "; not loaded: " + ", ".join(f"{b.distribution} ({describe_error(b.error)})" for b in self.broken)
        if away := sorted({item.distribution for item in self.disabled if item.kind is None}):
            fix += f"; disabled by {DISABLE}: {', '.join(away)}"
        return fix

    @property
    def unknown_disabled(self) -> list[str]:
        """Names in HEADRACE_DISABLE_PLUGINS that no installed plugin or distribution has."""
        met = {normalize_name(part) for item in self.disabled for part in (item.name, name_of(item.distribution))}
        return sorted(self._disable - met)


@cache
def registry() -> PluginRegistry:
    """Return the registry of this process. Entry points are read once."""
    return PluginRegistry.from_entry_points()
