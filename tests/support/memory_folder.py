"""Folder of text files in memory, for state of a checkpoint without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Parsed = TypeVar("Parsed")


class MemoryFolder:
    """Folder in memory with the methods of ``Folder`` that small state uses."""

    path = "memory"

    def __init__(self) -> None:
        self.content: dict[str, str] = {}
        self.folders: dict[str, MemoryFolder] = {}

    def names(self, *, hidden: bool = False) -> list[str]:
        folders = [name for name, folder in self.folders.items() if folder.names(hidden=True)]
        return sorted(name for name in [*self.content, *folders] if hidden or not name.startswith((".", "_")))

    def folder(self, name: str) -> MemoryFolder:
        return self.folders.setdefault(name, MemoryFolder())

    def read(self, name: str) -> str | None:
        return self.content.get(name)

    def load(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        text = self.read(name)
        return None if text is None else parse(text)

    def write(self, name: str, text: str) -> None:
        self.content[name] = text

    def delete(self, name: str) -> None:
        self.content.pop(name, None)
        self.folders.pop(name, None)
