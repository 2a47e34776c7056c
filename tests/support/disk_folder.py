"""Folder on a disk, for code that searches folders without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class DiskFolder:
    """Folder with the methods of ``Folder`` that a search uses."""

    def __init__(self, spark: Any, path: str) -> None:
        self.path = path

    def folder(self, name: str) -> DiskFolder:
        return DiskFolder(None, f"{self.path}/{name}")

    def exists(self) -> bool:
        return Path(self.path).exists()

    def names(self, *, hidden: bool = False) -> list[str]:
        names = [path.name for path in Path(self.path).glob("*")]
        return sorted(name for name in names if hidden or not name.startswith((".", "_")))
