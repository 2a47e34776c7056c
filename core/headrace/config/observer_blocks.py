"""Keys of the pipeline file that have the options of observers."""

from __future__ import annotations

from collections.abc import Collection

from headrace.config.command_blocks import list_block_commands
from headrace.registry.plugin_registry import registry


def list_plugin_keys() -> list[str]:
    """Return the keys of the file that plugins add: blocks of commands, and observers."""
    return [*list_block_commands(), *registry().names("observer")]


def find_observers(keys: Collection[str], own: Collection[str]) -> list[str]:
    """Return the keys that are names of observers, in their order in the file. ``own``: headrace's own keys."""
    if set(keys) <= set(own):
        return []
    names = set(registry().names("observer")) - set(own)
    return [key for key in keys if key in names]
