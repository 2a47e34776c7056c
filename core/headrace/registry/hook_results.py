"""Checks of the results of plugins' hooks. PluginError for a result of another type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.errors import PluginError

if TYPE_CHECKING:
    from headrace.sdk.plugin import Plugin


def check_strings(plugin: Plugin, hook: str, result: Any) -> list[str]:
    """Return the strings that a hook returned. A single string is an error: it would count as its characters."""
    items = None if isinstance(result, str) or not isinstance(result, Iterable) else list(result)
    if items is None or not all(isinstance(item, str) for item in items):
        raise PluginError(
            f"{hook} returns {type(result).__name__} instead of a collection of strings",
            where=f"plugin {plugin.name}",
            fix="report it to its author",
        )
    return items
