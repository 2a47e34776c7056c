"""Plugin blocks: ``NAME`` or ``NAME: {options}``, wherever a pipeline file or a plugin's options name one plugin."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BeforeValidator

from headrace.sdk.plugin_lookup import get_plugin


def parse_plugin_block(block: Any, noun: str) -> tuple[str, Any]:
    """Return name and options of a bare name, or of a mapping with one name; ``noun``: kind of plugin in the error.

    ValueError for a mapping that names no plugin or several, and for other values.
    """
    if isinstance(block, str):
        return block, {}
    if not isinstance(block, Mapping):
        raise ValueError(f"name exactly one {noun}")  # noqa: TRY004 - pydantic reports a ValueError
    if len(block) != 1:
        raise ValueError(f"name exactly one {noun}, not {', '.join(map(repr, block)) or 'none'}")
    ((name, options),) = block.items()
    return name, options


def plugin_validator(kind: str, noun: str) -> BeforeValidator:
    """Return the validator of an option that holds another plugin: it builds the plugin that a block names."""
    return BeforeValidator(partial(_build_plugin, kind, noun))


def _build_plugin(kind: str, noun: str, block: Any) -> Any:
    """Build the plugin of a block. Other values are returned unchanged; pydantic checks their type."""
    if not isinstance(block, str | Mapping):
        return block
    name, options = parse_plugin_block(block, noun)
    return get_plugin(kind, name)(options)
