"""Lookup of other plugins by name: a plugin's options may name a format, an auth provider or a catalog.

Contracts do not import the registry. ``headrace`` connects the registry when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class PluginLookup(Protocol):
    """PluginRegistry of plugins as plugins see it."""

    def get(self, kind: str, name: str) -> Any:
        """Return the class of a plugin. PluginError when it is missing or invalid."""

    def all(self, kind: str) -> list[tuple[str, Any]]:
        """Return names and classes of all valid plugins of a kind."""


_connected: Callable[[], PluginLookup] | None = None


def connect(lookup: Callable[[], PluginLookup]) -> None:
    """Set the function that returns the registry; it is called at each lookup."""
    global _connected  # noqa: PLW0603 - the composition root calls this once
    _connected = lookup


def get_plugin(kind: str, name: str) -> Any:
    """Return the class of a plugin (``get_plugin("format", "parquet")``). PluginError when it is missing or invalid."""
    return _registry().get(kind, name)


def list_plugins(kind: str) -> list[tuple[str, Any]]:
    """Return names and classes of all valid plugins of a kind, sorted by name."""
    return _registry().all(kind)


def _registry() -> PluginLookup:
    assert _connected, "headrace/__init__.py connects the registry"
    return _connected()
