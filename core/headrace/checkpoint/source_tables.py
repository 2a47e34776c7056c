"""Source table of each topic, from the first record that names it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.spark.storage import name_file

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


class SourceTables:
    """Topic → table of the database, in files of the checkpoint next to the topics' schemas."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}
        self._mixed: dict[str, bool] = {}

    def get(self, topic: str) -> str | None:
        """Return the source table of a topic; None until a record names it."""
        if topic not in self._known:
            table = self._folder.load(_file(topic), _parse)
            if table is not None:
                self._known[topic] = table
        return self._known.get(topic)

    def put(self, topic: str, table: str) -> None:
        """Save the source table of a topic."""
        self._known[topic] = table
        self._folder.write(_file(topic), json.dumps(table, ensure_ascii=False))

    def is_mixed(self, topic: str) -> bool:
        """Return whether the topic ever had a record of another table."""
        if topic not in self._mixed:
            self._mixed[topic] = self._folder.read(_file(topic, "mixed")) is not None
        return self._mixed[topic]

    def note_mixed(self, topic: str) -> None:
        """Record that a topic had a record of another table."""
        if not self.is_mixed(topic):
            self._folder.write(_file(topic, "mixed"), "true")
            self._mixed[topic] = True


def _parse(text: str) -> str:
    table = json.loads(text)
    if not isinstance(table, str):
        raise TypeError(text)
    return table


def _file(topic: str, kind: str = "table") -> str:
    return name_file(f"{topic}.{kind}", ".json")
