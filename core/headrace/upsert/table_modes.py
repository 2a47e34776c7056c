"""Modes in which tables were created."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.spark.storage import Folder


class TableModes:
    """Sink → its mode for a table, in a file of the checkpoint."""

    suffix = ".json"

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, f"{name}{self.suffix}"
        self._modes = folder.load(self._name, _parse) or {}

    def of(self, sink: str) -> str | None:
        """Return the mode in which a sink keeps the table; None if it is not recorded."""
        return self._modes.get(sink)

    def note(self, modes: Mapping[str, str]) -> None:
        """Record the modes in which sinks have written the table."""
        if not modes.items() <= self._modes.items():
            self._modes |= modes
            self._folder.write(self._name, json.dumps(self._modes))


def _parse(text: str) -> dict[str, str]:
    return {str(sink): str(mode) for sink, mode in json.loads(text).items()}
