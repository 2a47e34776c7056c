"""Keys of maps in JSON without schemas: data of a declared type, not names of columns.

Spark infers a struct for a map. Its fields are replaced by the map before names are checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.sdk import SchemaLog
from headrace_sources.formats.json.declared_columns import find_declared_columns, find_rows, to_table_schema
from headrace_sources.kafka_connect.connect_schema import ConnectSchema
from headrace_sources.limits import JSON_LEVELS

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructType

#: A string in JSON, and the rest of an object or list. Possessive groups do not recurse per item, which would overflow Java's stack.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_REST = r'[^\[\]{}"]++'


def put_declared_maps(
    spark: SparkSession,
    inferred: StructType,
    known: StructType | None,
    declared: Mapping[str, ConnectSchema],
    log: SchemaLog,
) -> StructType:
    """Return a batch's type with the maps of ``known`` and of the ``declared`` columns."""
    if declared:
        row_fields = log.row_fields(inferred)
        columns = find_declared_columns(spark, find_rows(inferred, row_fields), declared)
        inferred = _put_maps(inferred, to_table_schema(inferred, row_fields, columns))  # type: ignore[assignment]
    return inferred if known is None else _put_maps(inferred, known)  # type: ignore[return-value]


def find_map_names(*types: DataType) -> frozenset[str]:
    """Return the names of fields that are maps, or lists of maps. A name is left out if another field with it has columns of its own."""
    fields = [field for kind in types for field in _list_fields(kind)]
    others = {name for name, kind in fields if kind.typeName() == "struct"}
    return frozenset(name for name, kind in fields if kind.typeName() == "map") - others


def remove_maps(text: Column, names: Collection[str]) -> Column:
    """Return a JSON string without the keys and values of the maps with these names."""
    from pyspark.sql import functions as F

    if not names:
        return text
    either = "|".join(re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in sorted(names))
    return F.regexp_replace(text, rf'(?<!\\)"({either})"\s*:\s*{_nest(JSON_LEVELS)}', '"$1":0')


def _nest(levels: int) -> str:
    """Return the pattern of an object or list with up to that many levels."""
    pattern = rf"[\[{{](?:{_REST}|{_STRING})*+[\]}}]"
    for _ in range(levels - 1):
        pattern = rf"[\[{{](?:{_REST}|{_STRING}|{pattern})*+[\]}}]"
    return pattern


def _put_maps(inferred: DataType, expected: DataType) -> DataType:
    from pyspark.sql import types as T

    if isinstance(expected, T.MapType):
        return expected
    if isinstance(inferred, T.ArrayType) and isinstance(expected, T.ArrayType):
        return T.ArrayType(_put_maps(inferred.elementType, expected.elementType), inferred.containsNull)
    if not isinstance(inferred, T.StructType) or not isinstance(expected, T.StructType):
        return inferred
    kinds = {field.name: field.dataType for field in expected}
    return T.StructType(
        [T.StructField(f.name, _put_maps(f.dataType, kinds.get(f.name, f.dataType)), f.nullable) for f in inferred]
    )


def _list_fields(kind: DataType) -> Iterator[tuple[str, DataType]]:
    """Yield name and type of all fields outside of maps. The type of a list is that of its items."""
    for field in getattr(_item_type(kind), "fields", ()):
        inner = _item_type(field.dataType)
        yield field.name, inner
        yield from _list_fields(inner)


def _item_type(kind: DataType) -> DataType:
    return _item_type(kind.elementType) if kind.typeName() == "array" else kind  # type: ignore[attr-defined]
