"""Folder on Python's path with installed distributions."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


class Site:
    """Distributions of one module each, with an entry point of the same name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def install(self, module: str, code: str, *, metadata: str = METADATA, points: str = "{module} = {module}") -> None:
        """``headrace-MODULE 1.0`` with this code, and what an installer writes of it beside."""
        (self.folder / f"{module}.py").write_text(dedent(code))
        name = f"headrace-{module}"
        about = self.folder / f"headrace_{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(metadata.format(name=name, version="1.0"))
        (about / "entry_points.txt").write_text(f"[headrace]\n{points.format(module=module)}\n")
