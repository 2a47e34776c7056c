"""Addresses among what a pipeline says, and the file systems that its schemes belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.file_system import FileSystem

_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://")


def find_file_systems(registry: PluginRegistry, *said: Any) -> tuple[FileSystem, ...]:
    """Return the file systems of all addresses in models, mappings, lists and strings; none for an unknown scheme."""
    schemes = {scheme.lower() for text in _find_texts(said) if (scheme := _scheme_of(text))}
    return tuple(registry.get("filesystem", name)() for name in registry.names("filesystem") if name in schemes)


def _scheme_of(text: str) -> str:
    return match[1] if (match := _SCHEME.match(text)) else ""


def _find_texts(said: Any) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, BaseModel):
        yield from _find_texts([value for _, value in said])
    elif isinstance(said, Mapping):
        yield from _find_texts([*said.values()])
    elif isinstance(said, list | tuple | set | frozenset):
        for item in said:
            yield from _find_texts(item)
