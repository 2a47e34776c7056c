"""Schemas of topics, remembered so that types do not depend on what a batch happens to hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


class SchemaLog:
    """Subject → schema, in a folder of the checkpoint; in memory alone when there is no folder."""

    def __init__(self, folder: Folder | None = None) -> None:
        self._folder = folder
        #: Topic → column → the type that the pipeline file gives it.
        self.columns: Callable[[str], Mapping[str, str]] = lambda topic: {}
        #: Topic → column → its type in the table, where there is one already; without those that a transform changes.
        self.tables: Callable[[str], Mapping[str, DataType]] = lambda topic: {}
        #: The reasons of which the pipeline file says what becomes of their records.
        self.ruled: Collection[str] = ()
        #: Subject → ids that a registry does not have. A batch asks once, however often it is planned.
        self.missing: dict[str, set[str]] = {}
        self._stored: dict[str, Mapping[str, DataType]] = {}
        self._known: dict[str, StructType] = {}
        self._writers: dict[str, dict[str, str]] = {}

    def get(self, subject: str) -> StructType | None:
        from pyspark.sql.types import StructType

        if subject not in self._known and self._folder:
            text = self._folder.read(_file(subject))
            if text is not None:
                self._known[subject] = StructType.fromJson(json.loads(text))
        return self._known.get(subject)

    def remember(self, subject: str, schema: StructType) -> None:
        if self.get(subject) == schema:
            return
        self._known[subject] = schema
        if self._folder:
            self._folder.write(_file(subject), schema.json())

    def declared(self, subject: str) -> Mapping[str, str]:
        """Column → the type that the pipeline file gives it."""
        return self.columns(subject.rsplit("-", 1)[0])

    def stored(self, subject: str) -> Mapping[str, DataType]:
        """Column → the type that it had in the topic's table when this run first asked; empty without a table."""
        if subject not in self._stored:
            self._stored[subject] = self.tables(subject.rsplit("-", 1)[0])
        return self._stored[subject]

    def writers(self, subject: str) -> Mapping[str, str]:
        """The writer schemas that records of a subject were met with, by id, as the format's own text."""
        if subject not in self._writers:
            text = self._folder.read(_file(f"{subject}.writers")) if self._folder else None
            self._writers[subject] = json.loads(text) if text else {}
        return self._writers[subject]

    def add_writer(self, subject: str, id: str, schema: str) -> None:  # noqa: A002 - the registries' word
        """Remembers a writer schema."""
        if self.writers(subject).get(id) == schema:
            return
        self._writers[subject] = {**self.writers(subject), id: schema}
        if self._folder:
            self._folder.write(_file(f"{subject}.writers"), json.dumps(self._writers[subject], ensure_ascii=False))


def _file(subject: str) -> str:
    return quote(subject, safe="") + ".json"
