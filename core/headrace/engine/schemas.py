"""Schemas of topics, remembered so that types do not depend on what a batch happens to hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.engine.storage import Folder
from headrace.errors import DataError

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


def merged(first: DataType, second: DataType, path: str = "") -> DataType:
    """A type that holds the values of both: fields of both structs, the wider of two numbers.

    DataError when there is none; ``path`` is the column in it.
    """
    from pyspark.sql import types as T

    if first == second:
        return first
    if isinstance(first, T.StructType) and isinstance(second, T.StructType):
        theirs = {field.name: field for field in second}
        fields = []
        for field in first:
            other = theirs.pop(field.name, None)
            inner = f"{path}.{field.name}" if path else field.name
            kind = merged(field.dataType, other.dataType, inner) if other else field.dataType
            fields.append(T.StructField(field.name, kind, nullable=True))
        return T.StructType([*fields, *(T.StructField(f.name, f.dataType, nullable=True) for f in theirs.values())])
    if isinstance(first, T.ArrayType) and isinstance(second, T.ArrayType):
        return T.ArrayType(merged(first.elementType, second.elementType, path), containsNull=True)
    if isinstance(first, T.MapType) and isinstance(second, T.MapType):
        kinds = merged(first.keyType, second.keyType, path), merged(first.valueType, second.valueType, path)
        return T.MapType(*kinds, valueContainsNull=True)
    if isinstance(first, T.NullType) or isinstance(second, T.NullType):
        return second if isinstance(first, T.NullType) else first
    number = _wider(first, second)
    if number is None:
        raise DataError(
            f"the column {path!r} is {first.simpleString()} in some records and {second.simpleString()} in others",
            fix="read the two kinds with two pipelines, or cast the column where the events are made",
        )
    return number


def grown(known: DataType, found: DataType) -> DataType:
    """``known`` with the fields that only ``found`` has; types that are known stay."""
    from pyspark.sql import types as T

    if isinstance(known, T.StructType) and isinstance(found, T.StructType):
        theirs = {field.name: field for field in found}
        fields = []
        for field in known:
            other = theirs.pop(field.name, None)
            fields.append(T.StructField(field.name, grown(field.dataType, other.dataType) if other else field.dataType))
        return T.StructType([*fields, *theirs.values()])
    if isinstance(known, T.ArrayType) and isinstance(found, T.ArrayType):
        return T.ArrayType(grown(known.elementType, found.elementType))
    return known


def _wider(first: DataType, second: DataType) -> DataType | None:
    """The number type that a database, too, would have widened both to."""
    from pyspark.sql import types as T

    whole = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    for ladder in (whole, (T.FloatType, T.DoubleType)):
        if isinstance(first, ladder) and isinstance(second, ladder):
            return max(first, second, key=lambda kind: ladder.index(type(kind)))
    numbers = (*whole, T.FloatType, T.DoubleType)
    if isinstance(first, numbers) and isinstance(second, numbers):
        return T.DoubleType()
    if isinstance(first, T.DecimalType) and isinstance(second, T.DecimalType):
        scale = max(first.scale, second.scale)
        precision = max(first.precision - first.scale, second.precision - second.scale) + scale
        return T.DecimalType(precision, scale) if precision <= 38 else None
    return None


def _file(subject: str) -> str:
    return quote(subject, safe="") + ".json"
