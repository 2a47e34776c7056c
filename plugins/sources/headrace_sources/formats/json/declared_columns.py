"""Column types of JSON without schemas that the pipeline file declares or the table has."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, SchemaLog, Subject
from headrace.sdk.columns import match_names
from headrace_sources.kafka_connect.connect_schema import LEAF_NAMES, ConnectSchema
from headrace_sources.kafka_connect.connect_types import parse_type_name, table_type, to_connect_schema
from headrace_sources.kafka_connect.times import JSON_DATE, JSON_TIMESTAMP

#: A type. Spark would parse a list of columns as a struct.
_TYPE = re.compile(r"\w+(\(\d+(, *\d+)?\))?|(array|map|struct)<.*>")
#: Options of Spark's JSON reader for dates and timestamps.
_TIME_OPTIONS = {JSON_DATE: ("dateFormat", "locale"), JSON_TIMESTAMP: ("timestampFormat", "locale")}

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType


def refuse_declared_columns(log: SchemaLog, subject: Subject) -> None:
    """Raise ConfigError if the pipeline file declares types of records that have a schema."""
    if log.file_types(subject):
        raise ConfigError(
            "`columns:` declares types, but the records have a schema",
            where=f"topic {subject.topic}",
            fix="remove `columns:` from the rule",
        )


def parse_declared_types(types: Mapping[str, str], topic: str) -> dict[str, ConnectSchema]:
    """Return the schema of each column, from the declared types."""
    return {column: _parse_type(text, column, topic) for column, text in types.items()}


def find_declared_columns(
    session: SparkSession, rows: Collection[StructType], declared: Mapping[str, ConnectSchema]
) -> dict[str, ConnectSchema]:
    """Return the declared columns in the spelling of the events' rows."""
    names = {field.name for row in rows for field in row}
    return {name: declared[written] for name, written in match_names(session, declared, sorted(names)).items()}


def read_table_types(
    session: SparkSession, rows: Collection[StructType], table_types: Mapping[str, DataType]
) -> dict[str, ConnectSchema]:
    """Return the parse type of each column that is numeric both in the table and in the data.

    Other types of a table do not determine the JSON type: a time may be a count of any unit.
    """
    from pyspark.sql.types import DecimalType, NumericType, StringType

    inferred: dict[str, list[DataType]] = {}
    for field in (field for row in rows for field in row):
        inferred.setdefault(field.name, []).append(field.dataType)
    columns = {}
    for name, written in match_names(session, table_types, inferred).items():
        data_type = table_types[written]
        # Decimals are strings with `decimal.handling.mode: string`.
        wire_types = (NumericType, StringType) if isinstance(data_type, DecimalType) else NumericType
        has_numbers = all(isinstance(item, wire_types) for item in inferred[name])
        if isinstance(data_type, NumericType) and has_numbers:
            columns[name] = to_connect_schema(data_type)
    return columns


def to_table_schema(
    schema: StructType, row_fields: Collection[str], declared: Mapping[str, ConnectSchema]
) -> StructType:
    """Return an inferred schema with the declared columns' types."""
    return table_type(to_wire_schema(schema, row_fields, declared))  # type: ignore[return-value]


def to_wire_schema(
    schema: StructType, row_fields: Collection[str], declared: Mapping[str, ConnectSchema]
) -> ConnectSchema:
    """Return the schema to parse records with: the declared columns of rows (``row_fields``, or all), and the others."""
    from pyspark.sql.types import StructType

    def to_row(data_type: DataType) -> ConnectSchema:
        if not isinstance(data_type, StructType):
            return to_connect_schema(data_type)
        return ConnectSchema(fields={f.name: declared.get(f.name) or to_connect_schema(f.dataType) for f in data_type})

    if not row_fields:
        return to_row(schema)
    return ConnectSchema(
        fields={f.name: (to_row if f.name in row_fields else to_connect_schema)(f.dataType) for f in schema}
    )


def add_time_options(tree: ConnectSchema, options: Mapping[str, str]) -> ConnectSchema:
    """Return the schema with the options of Spark's JSON reader for its dates and timestamps."""

    def add(leaf: ConnectSchema) -> ConnectSchema:
        chosen = {name: options[name] for name in _TIME_OPTIONS.get(leaf.name or "", ()) if name in options}
        return replace(leaf, parameters=chosen) if chosen else leaf

    return tree.map_leaves(add)


def find_rows(schema: StructType, row_fields: Collection[str]) -> list[StructType]:
    """Return the rows in events of a schema, or the schema itself if it is the row."""
    rows = [schema[name].dataType for name in row_fields] or [schema]
    return [row for row in rows if row.typeName() == "struct"]  # type: ignore[misc]


def _parse_type(text: str, column: str, topic: str) -> ConnectSchema:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_string  # PySpark 3.5 has no public function to parse a type's name

    leaf = None
    with suppress(LookupError, PySparkException):
        if "." in text or text in LEAF_NAMES:
            leaf = parse_type_name(text)
        elif _TYPE.fullmatch(text):
            leaf = to_connect_schema(_parse_datatype_string(text))
    if leaf is None:
        raise ConfigError(
            f"{text!r} is not a type of the column {column!r}",
            where=f"topic {topic}, `columns:` of its rule",
            fix="use a Spark type, like decimal(10,2), or a name like io.debezium.time.MicroTimestamp",
        )
    return leaf
