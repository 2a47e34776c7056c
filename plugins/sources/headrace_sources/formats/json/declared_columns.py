"""The types of columns of JSON without schemas, where something else than the data tells them: the file, or the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.sdk import IMAGES, ConfigError
from headrace_sources.connect import schema as connect
from headrace_sources.connect.schema import Wire

#: A type and no list of columns, which Spark would take for a struct.
_TYPE = re.compile(r"\w+(\(\d+(, *\d+)?\))?|(array|map|struct)<.*>")

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from headrace.sdk import SchemaLog


def none_declared(log: SchemaLog, subject: str) -> None:
    """ConfigError where the file gives types to records that bring their own."""
    if log.declared(subject):
        raise ConfigError(
            "`columns:` gives its columns types, and the records bring their own",
            where=f"topic {subject.rsplit('-', 1)[0]}",
            fix="leave `columns:` out of its rule",
        )


def leaves(types: Mapping[str, str], topic: str) -> dict[str, Wire]:
    """Column → how it is parsed and what it means, from the types as they are written."""
    return {column: _leaf(kind, column, topic) for column, kind in types.items()}


def of_table(schema: StructType, stored: Mapping[str, DataType]) -> dict[str, Wire]:
    """Column → how it is parsed, where its type in the table holds numbers, and so does the data.

    Of other types a table does not tell how JSON has them: a time may be a count of anything.
    """
    from pyspark.sql.types import DecimalType, NumericType, StringType, StructType

    rows = [schema[name].dataType for name in IMAGES if name in schema.names] or [schema]
    seen: dict[str, list[DataType]] = {}
    for field in (field for row in rows if isinstance(row, StructType) for field in row):
        seen.setdefault(field.name, []).append(field.dataType)
    found = {}
    for name, kind in stored.items():
        # Decimals are text with `decimal.handling.mode: string`.
        wires = (NumericType, StringType) if isinstance(kind, DecimalType) else NumericType
        if isinstance(kind, NumericType) and name in seen and all(isinstance(item, wires) for item in seen[name]):
            found[name] = connect.of_type(kind)
    return found


def in_table(schema: StructType, declared: Mapping[str, Wire]) -> StructType:
    """An inferred schema with the declared columns' own types."""
    return connect.table_type(on_the_wire(schema, declared))  # type: ignore[return-value]


def on_the_wire(schema: StructType, declared: Mapping[str, Wire]) -> Wire:
    """The tree to parse records with: the declared columns of rows, or of row images, and the rest as it is."""
    from pyspark.sql.types import StructType

    def row(kind: DataType) -> Wire:
        if not isinstance(kind, StructType):
            return connect.of_type(kind)
        return Wire(fields={f.name: declared.get(f.name) or connect.of_type(f.dataType) for f in kind})

    images = [name for name in IMAGES if name in schema.names]
    if not images:
        return row(schema)
    return Wire(fields={f.name: (row if f.name in images else connect.of_type)(f.dataType) for f in schema})


def _leaf(kind: str, column: str, topic: str) -> Wire:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_string  # PySpark 3.5 has no other way to a type's name

    leaf = None
    with suppress(LookupError, PySparkException):
        if "." in kind:
            leaf = connect.of_name(kind)
        elif _TYPE.fullmatch(kind):
            leaf = connect.of_type(_parse_datatype_string(kind))
    if leaf is None:
        raise ConfigError(
            f"{kind!r} is no type for the column {column!r}",
            where=f"topic {topic}, `columns:` of its rule",
            fix="write one of Spark's, like decimal(10,2), or a name like io.debezium.time.MicroTimestamp",
        )
    return leaf
