"""Lookup of other plugins by name: a plugin's options may name a format, an auth provider or a catalog.

Contracts do not import the registry. ``headrace`` connects the registry when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol


class PluginLookup(Protocol):
    """Registry of plugins as plugins see it."""

    def __hash__(self) -> int:
        """Return the identity: a registry is a cache key."""

    def get(self, kind: str, name: str) -> Any:
        """Return the class of a plugin. PluginError when it is missing or invalid."""

    def all(self, kind: str) -> list[tuple[str, Any]]:
        """Return names and classes of all valid plugins of a kind."""

    def registrations(self) -> Iterator[Any]:
        """Yield all registrations: ``kind``, ``name``, and ``is_own`` for headrace's own distribution."""

    def load(self, item: Any) -> Any:
        """Return the class of a registration. PluginError when it is invalid."""

    def build(self, item: Any) -> Any:
        """Return a plugin of a registration, without options. PluginError when it is invalid or cannot be built."""

    def find_unusable(self, kind: str) -> list[str]:
        """Return why plugins of a kind cannot be used. A distribution that cannot be loaded may have plugins of any kind."""


_connected: Callable[[], PluginLookup] | None = None


def connect(lookup: Callable[[], PluginLookup]) -> None:
    """Set the function that returns the registry; it is called at each lookup."""
    global _connected  # noqa: PLW0603 - the composition root calls this once
    _connected = lookup


def get_plugin(kind: str, name: str) -> Any:
    """Return the class of a plugin (``get_plugin("format", "parquet")``). PluginError when it is missing or invalid."""
    return get_registry().get(kind, name)


def list_plugins(kind: str) -> list[tuple[str, Any]]:
    """Return names and classes of all valid plugins of a kind, sorted by name."""
    return get_registry().all(kind)


def get_registry() -> PluginLookup:
    """Return the registry of this process."""
    assert _connected, "headrace/__init__.py connects the registry"
    return _connected()
