"""Modes in which tables were created, and their key columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.spark.storage import Folder


class TableModes:
    """Sink → its mode for a table, and the key of the table's rows, in a file of the checkpoint."""

    suffix = ".json"

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, f"{name}{self.suffix}"
        self._modes, self._key = folder.load(self._name, _parse) or ({}, ())

    @property
    def key(self) -> tuple[str, ...]:
        """Key columns of the table's last batch; empty without a key, and until the next batch of an older checkpoint."""
        return self._key

    def of(self, sink: str) -> str | None:
        """Return the mode in which a sink keeps the table; None if it is not recorded."""
        return self._modes.get(sink)

    def note(self, modes: Mapping[str, str], key: tuple[str, ...]) -> None:
        """Record the modes in which sinks have written the table, and the key columns of its rows."""
        if not modes.items() <= self._modes.items() or key != self._key:
            self._modes |= modes
            self._key = key
            self._folder.write(self._name, json.dumps({"modes": self._modes, "key": key}, ensure_ascii=False))


def _parse(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    data: dict[str, Any] = json.loads(text)
    if not isinstance(modes := data.get("modes"), dict):  # An older checkpoint, without the key.
        return {str(sink): str(mode) for sink, mode in data.items()}, ()
    return {str(sink): str(mode) for sink, mode in modes.items()}, tuple(map(str, data["key"]))
