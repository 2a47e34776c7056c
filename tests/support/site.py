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
        """Install ``headrace-MODULE 1.0`` with this code and its metadata."""
        (self.folder / f"{module}.py").write_text(dedent(code))
        name = f"headrace-{module}"
        metadata_folder = self.folder / f"headrace_{module}-1.0.dist-info"
        metadata_folder.mkdir()
        (metadata_folder / "METADATA").write_text(metadata.format(name=name, version="1.0"))
        (metadata_folder / "entry_points.txt").write_text(f"[headrace]\n{points.format(module=module)}\n")
