"""Schemas of topics, remembered so that types do not depend on what a batch happens to hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import quote

from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

State = TypeVar("State")


@dataclass(frozen=True)
class Subject:
    """What schema registries call a subject: the keys, or the values, of a topic's records."""

    topic: str
    #: ``key`` or ``value``.
    part: str

    @classmethod
    def parse(cls, text: str) -> Subject:
        """The subject that is written ``<topic>-<part>``."""
        topic, _, part = text.rpartition("-")
        return cls(topic, part)

    @property
    def nouns(self) -> str:
        """What errors call them."""
        return "keys" if self.part == "key" else "records"

    def __str__(self) -> str:
        return f"{self.topic}-{self.part}"


class SchemaLog:
    """Subject → schema, in a folder of the checkpoint; in memory alone when there is no folder. Threads may share it.

    ``file_types``: topic → column → the type that the pipeline file gives it. ``table_types``: topic → column → its type in the
    table, where there is one already; without those that a transform changes. ``row_fields``: of a schema of events, the fields
    that are rows. ``ruled``: the reject reasons of which the pipeline file says what becomes of their records.
    """

    def __init__(
        self,
        folder: Folder | None = None,
        *,
        file_types: Callable[[str], Mapping[str, str]] | None = None,
        table_types: Callable[[str], Mapping[str, DataType]] | None = None,
        row_fields: Callable[[StructType], Collection[str]] = lambda schema: (),
        ruled: Collection[str] = (),
    ) -> None:
        self.ruled, self.row_fields = ruled, row_fields
        #: Subject → ids that a registry does not have. A batch asks once, however often it is planned.
        self.missing: dict[Subject, set[str]] = {}
        self._folder, self._file_types, self._table_types = folder, file_types, table_types
        self._known_table_types: dict[str, Mapping[str, DataType]] = {}
        self._known: dict[str, StructType] = {}
        self._writers: dict[Subject, dict[str, str]] = {}
        self._unknown: dict[Subject, set[str]] = {}
        self._states: dict[tuple[Subject, type], object] = {}
        self._lock, self._topics = threading.Lock(), dict[str, threading.RLock]()

    def hold(self, topic: str) -> AbstractContextManager[bool]:
        """Keeps other threads from opening a topic meanwhile: a batch may, and a table of it that catches up.

        What each learns is put to what is remembered, so that neither may remember anything in between.
        """
        with self._lock:
            return self._topics.setdefault(topic, threading.RLock())

    def get(self, subject: Subject | str) -> StructType | None:
        """The schema that was remembered; ``subject`` is any text where it is no topic's."""
        from pyspark.sql.types import StructType

        name = str(subject)
        if name not in self._known and self._folder and (text := self._folder.read(_file(name))) is not None:
            self._known[name] = StructType.fromJson(json.loads(text))
        return self._known.get(name)

    def remember(self, subject: Subject | str, schema: StructType) -> None:
        """Keeps a schema in the place of the one before."""
        if self.get(subject) == schema:
            return
        self._known[str(subject)] = schema
        if self._folder:
            self._folder.write(_file(str(subject)), schema.json())

    def file_types(self, subject: Subject) -> Mapping[str, str]:
        """Column → the type that the pipeline file gives it."""
        return self._file_types(subject.topic) if self._file_types else {}

    def table_types(self, subject: Subject) -> Mapping[str, DataType]:
        """Column → the type that it had in the topic's table when this run first asked; empty without a table."""
        if subject.topic not in self._known_table_types:
            self._known_table_types[subject.topic] = self._table_types(subject.topic) if self._table_types else {}
        return self._known_table_types[subject.topic]

    def writers(self, subject: Subject) -> Mapping[str, str]:
        """The writer schemas that records of a subject were met with, by id, as the format's own text."""
        if subject not in self._writers:
            text = self._folder.read(_file(f"{subject}.writers")) if self._folder else None
            self._writers[subject] = json.loads(text) if text else {}
        return self._writers[subject]

    def add_writer(self, subject: Subject, id: str, schema: str) -> None:  # noqa: A002 - the registries' word
        """Remembers a writer schema."""
        if self.writers(subject).get(id) == schema:
            return
        self._writers[subject] = {**self.writers(subject), id: schema}
        if self._folder:
            self._folder.write(_file(f"{subject}.writers"), json.dumps(self._writers[subject], ensure_ascii=False))

    def note_unknown(self, schemas: Iterable[tuple[Subject, str]]) -> None:
        """Subjects and ids for which tasks failed (``UnknownSchemaError.schemas``), for the next ``open`` of their format."""
        with self._lock:
            for subject, id_ in schemas:
                self._unknown.setdefault(subject, set()).add(id_)

    def take_unknown(self, subject: Subject) -> set[str] | None:
        """The ids that were noted since they were last taken, of which some may be empty; None where no task failed."""
        with self._lock:
            return self._unknown.pop(subject, None)

    def state(self, subject: Subject, kind: type[State]) -> State:
        """What a format keeps of a subject from one batch of this run to the next: ``kind()``, when it first asks."""
        return cast("State", self._states.setdefault((subject, kind), kind()))


def _file(name: str) -> str:
    return quote(name, safe="") + ".json"
