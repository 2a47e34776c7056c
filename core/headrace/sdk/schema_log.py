"""Log of topics' schemas: types do not depend on the content of a single batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from headrace.sdk.reject_reason import RejectReason
from headrace.spark.storage import Folder, name_file

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

State = TypeVar("State")
#: Separator between a topic and the name of one of its tables, in the topic of a subject.
PART_MARK = "//"


@dataclass(frozen=True)
class Subject:
    """Subject of a schema registry: the keys, or the values, of a topic's records."""

    topic: str
    #: ``key`` or ``value``.
    part: str

    @classmethod
    def parse(cls, text: str) -> Subject:
        """Return the subject of ``<topic>-<part>``."""
        topic, _, part = text.rpartition("-")
        return cls(topic, part)

    @property
    def nouns(self) -> str:
        """Noun in error messages."""
        return "keys" if self.part == "key" else "records"

    def __str__(self) -> str:
        return f"{self.topic}-{self.part}"


def part_subject(topic: str, table: str, part: str) -> Subject:
    """Return the subject of the keys or values of one table in a topic with several tables."""
    return Subject(f"{topic}{PART_MARK}{table}", part)


class SchemaLog:
    """Subject → schema, in a folder of the checkpoint; without a folder, in memory. Threads may share it.

    ``file_types``: topic → column → type from the pipeline file. ``table_types``: topic → column → type in the existing table,
    without columns that a transform changes. ``row_fields``: event schema → fields that hold rows. ``ruled``: topic →
    reject reasons for which the pipeline file has a policy; ``splits``: topic → whether it has several tables with their own types.
    """

    def __init__(
        self,
        folder: Folder | None = None,
        *,
        file_types: Callable[[str], Mapping[str, str]] | None = None,
        table_types: Callable[[str], Mapping[str, DataType]] | None = None,
        row_fields: Callable[[StructType], Collection[str]] = lambda schema: (),
        ruled: Callable[[str], Collection[str]] = lambda topic: (),
        splits: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self.ruled, self.row_fields, self._splits = ruled, row_fields, splits
        #: Subject → ids that a schema registry does not have. A batch requests each once, however often it is planned.
        self.missing: dict[Subject, set[str]] = {}
        #: Called with the topic, or the name, of a schema that replaces another one.
        self.on_change: Callable[[str], None] = lambda topic: None
        self._folder, self._file_types, self._table_types = folder, file_types, table_types
        self._known_table_types: dict[str, Mapping[str, DataType]] = {}
        self._known: dict[str, StructType] = {}
        self._writers: dict[Subject, dict[str, str]] = {}
        self._unknown: dict[Subject, set[str]] = {}
        self._states: dict[tuple[Subject, type], object] = {}
        self._lock, self._topics = threading.Lock(), dict[str, threading.RLock]()

    def hold(self, topic: str) -> AbstractContextManager[bool]:
        """Return a lock that keeps other threads from opening a topic: a batch and a table's catch-up may do so concurrently.

        Each adds to the stored schemas, so neither may store one in between.
        """
        with self._lock:
            return self._topics.setdefault(topic, threading.RLock())

    def get(self, subject: Subject | str) -> StructType | None:
        """Return the stored schema; ``subject`` may be any string that is not the name of a topic."""
        from pyspark.sql.types import StructType

        name = str(subject)
        if name not in self._known and self._folder:
            schema = self._folder.load(_file(name), lambda text: StructType.fromJson(json.loads(text)))
            if schema is not None:
                self._known[name] = schema
        return self._known.get(name)

    def remember(self, subject: Subject | str, schema: StructType) -> None:
        """Store a schema in place of the previous one."""
        before = self.get(subject)
        if before == schema:
            return
        self._known[str(subject)] = schema
        if self._folder:
            self._folder.write(_file(str(subject)), schema.json())
        if before is not None:
            self.on_change(subject.topic if isinstance(subject, Subject) else subject)

    def list_schemas(self) -> list[StructType]:
        """Return the schemas that this run has stored or read."""
        return list(self._known.values())

    def allows_conflicts(self, subject: Subject) -> bool:
        """Return whether records of a schema that conflicts with earlier ones are rejected; otherwise the topic fails."""
        return RejectReason.SCHEMA_INCOMPATIBLE in self.ruled(subject.topic) or self._splits(subject.topic)

    def file_types(self, subject: Subject) -> Mapping[str, str]:
        """Return column → type from the pipeline file."""
        return self._file_types(subject.topic) if self._file_types else {}

    def table_types(self, subject: Subject) -> Mapping[str, DataType]:
        """Return column → type in the topic's table at the first call of this run; empty without a table."""
        if subject.topic not in self._known_table_types:
            self._known_table_types[subject.topic] = self._table_types(subject.topic) if self._table_types else {}
        return self._known_table_types[subject.topic]

    def writers(self, subject: Subject) -> Mapping[str, str]:
        """Return the known writer schemas of a subject, by id, as the format's own text."""
        if subject not in self._writers:
            stored = self._folder.load(_file(f"{subject}.writers"), _parse_writers) if self._folder else None
            self._writers[subject] = stored or {}
        return self._writers[subject]

    def add_writer(self, subject: Subject, id: str, schema: str) -> None:  # noqa: A002 - the registries' word
        """Store a writer schema."""
        before = self.writers(subject)
        if before.get(id) == schema:
            return
        self._writers[subject] = {**before, id: schema}
        if self._folder:
            self._folder.write(_file(f"{subject}.writers"), json.dumps(self._writers[subject], ensure_ascii=False))
        if before:
            self.on_change(subject.topic)

    def note_unknown(self, schemas: Iterable[tuple[Subject, str]]) -> None:
        """Note subjects and ids for which tasks failed (``UnknownSchemaError.schemas``), for the next ``open`` of their format."""
        with self._lock:
            for subject, id_ in schemas:
                self._unknown.setdefault(subject, set()).add(id_)

    def take_unknown(self, subject: Subject) -> set[str] | None:
        """Return and clear the noted ids, some of which may be empty; None when no task failed."""
        with self._lock:
            return self._unknown.pop(subject, None)

    def state(self, subject: Subject, kind: type[State]) -> State:
        """Return a format's state for a subject within this run: ``kind()`` at the first call."""
        return cast("State", self._states.setdefault((subject, kind), kind()))


def _parse_writers(text: str) -> dict[str, str]:
    return {str(id_): str(schema) for id_, schema in json.loads(text).items()}


def _file(name: str) -> str:
    return name_file(name, ".json")
