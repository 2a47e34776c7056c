"""Addresses in a pipeline's values, and the file systems of their schemes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.file_system import FileSystem

_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://")


def find_file_systems(registry: PluginRegistry, *values: Any) -> tuple[FileSystem, ...]:
    """Return the file systems of all addresses in models, mappings, lists and strings; none for an unknown scheme."""
    schemes = {scheme.lower() for text in _find_strings(values) if (scheme := _scheme_of(text))}
    return tuple(registry.get("filesystem", name)() for name in registry.names("filesystem") if name in schemes)


def _scheme_of(text: str) -> str:
    return match[1] if (match := _SCHEME.match(text)) else ""


def _find_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, BaseModel):
        yield from _find_strings([item for _, item in value])
    elif isinstance(value, Mapping):
        yield from _find_strings([*value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _find_strings(item)
