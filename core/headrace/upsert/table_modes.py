"""How a table is kept, noted where nobody wrote it into the pipeline file: what the events then had decided it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.spark.storage import Folder


class TableModes:
    """Sink → the mode in which it keeps a table, in a file of the checkpoint."""

    suffix = ".json"

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, f"{name}{self.suffix}"
        self._modes: dict[str, str] = json.loads(folder.read(self._name) or "{}")

    def of(self, sink: str) -> str | None:
        """The mode in which a sink keeps the table; None when none was noted."""
        return self._modes.get(sink)

    def note(self, modes: Mapping[str, str]) -> None:
        """Notes the modes in which sinks have written the table."""
        if not modes.items() <= self._modes.items():
            self._modes |= modes
            self._folder.write(self._name, json.dumps(self._modes))
