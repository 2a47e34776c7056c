"""Schemas of topics, remembered so that types do not depend on what a batch happens to hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.engine.storage import Folder
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


class SchemaLog:
    """Subject → schema, in a folder of the checkpoint; in memory alone when there is no folder."""

    def __init__(self, folder: Folder | None = None) -> None:
        self._folder = folder
        self._known: dict[str, StructType] = {}

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

    def subjects(self) -> list[str]:
        stored = [unquote(name.removesuffix(".json")) for name in self._folder.names()] if self._folder else []
        return sorted({*self._known, *stored})


def merged(first: DataType, second: DataType, what: str) -> DataType:
    """A type that holds the values of both: fields of both structs, the wider of two numbers.

    DataError when there is none; ``what`` says in it of which column.
    """
    from pyspark.sql import types as T

    if first == second:
        return first
    if isinstance(first, T.StructType) and isinstance(second, T.StructType):
        theirs = {field.name: field for field in second}
        fields = []
        for field in first:
            other = theirs.pop(field.name, None)
            kind = merged(field.dataType, other.dataType, f"{what}.{field.name}") if other else field.dataType
            fields.append(T.StructField(field.name, kind, nullable=True))
        return T.StructType([*fields, *(T.StructField(f.name, f.dataType, nullable=True) for f in theirs.values())])
    if isinstance(first, T.ArrayType) and isinstance(second, T.ArrayType):
        return T.ArrayType(merged(first.elementType, second.elementType, what), containsNull=True)
    if isinstance(first, T.MapType) and isinstance(second, T.MapType):
        kinds = merged(first.keyType, second.keyType, what), merged(first.valueType, second.valueType, what)
        return T.MapType(*kinds, valueContainsNull=True)
    if isinstance(first, T.NullType) or isinstance(second, T.NullType):
        return second if isinstance(first, T.NullType) else first
    for ladder in ((T.ByteType, T.ShortType, T.IntegerType, T.LongType), (T.FloatType, T.DoubleType)):
        if type(first) in ladder and type(second) in ladder:
            return max(first, second, key=lambda kind: ladder.index(type(kind)))  # type: ignore[arg-type]
    raise DataError(
        f"{what} is {first.simpleString()} in some records and {second.simpleString()} in others",
        fix="read the two kinds with two pipelines, or cast the column where the events are made",
    )


def _file(subject: str) -> str:
    return quote(subject, safe="") + ".json"
