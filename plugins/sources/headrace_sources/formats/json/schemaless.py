"""JSON without a schema: types are taken from the data once and remembered; a later batch adds columns, and flips none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import (
    DataError,
    RecordReader,
    RejectReason,
    SchemaLog,
    Subject,
    add_missing_fields,
    barrier,
    quote_name,
)
from headrace_sources.connect.schema import ConnectSchema
from headrace_sources.connect.types import conversion_failed, convert, table_type, wire_type
from headrace_sources.formats.json.declared_columns import (
    find_declared_columns,
    parse_declared_types,
    read_table_types,
    to_table_schema,
    to_wire_schema,
)
from headrace_sources.formats.json.field_names import (
    DroppedFields,
    case_sensitive_names,
    drop_bad_key_names,
    drop_bad_names,
    has_dropped_field,
)
from headrace_sources.formats.json.parsing import BODY, CORRUPT, PARSED, TABLE, has_several_documents, parse_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass
class _KnownTypes:
    """What the pipeline file and the table say of a subject's columns; looked up when columns come."""

    columns: Mapping[str, ConnectSchema] | None = None


@dataclass(frozen=True)
class SchemalessReader(RecordReader):
    """Reads records by the types that the data had, and those that file and table say."""

    schema: StructType
    #: Column → how it is parsed, where its type is not what the data shows.
    declared: Mapping[str, ConnectSchema]
    dropped: DroppedFields
    #: Of Spark's JSON reader.
    options: Mapping[str, str]

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        tree = to_wire_schema(schema, self.declared)
        record_type = StructType([*wire_type(tree), StructField(CORRUPT, StringType())])  # type: ignore[misc]
        text = F.col(column).cast("string")
        others = [F.col(quote_name(name)) for name in frame.columns if name != column]
        is_record = F.col(BODY).isNotNull()
        is_bad = F.col(PARSED).isNull() | F.col(f"{PARSED}.{CORRUPT}").isNotNull()
        is_bad |= has_several_documents(F.col(BODY), self.options)
        is_bad |= has_dropped_field(F.col(BODY), self.dropped)
        fields = F.struct(*[F.col(PARSED).getField(name).alias(name) for name in schema.names])
        struct = F.from_json(text, record_type, parse_options(self.options))
        frame = frame.select(*others, text.alias(BODY), struct.alias(PARSED))
        if wire_type(tree) != table_type(tree):
            frame = frame.select("*", barrier(convert(fields, tree, schema)).alias(TABLE))
            failed = conversion_failed(fields, F.col(TABLE), tree)
            fields, is_bad = F.col(TABLE), is_bad if failed is None else is_bad | failed
        return frame.select(
            *others,
            F.when(is_record, fields).alias(column),
            F.when(is_record & is_bad, F.lit(RejectReason.UNDECODABLE)).alias(error),
        )


def open_by_data(
    spark: SparkSession,
    texts: DataFrame,
    first: Sequence[str],
    subject: Subject,
    log: SchemaLog,
    options: Mapping[str, str],
) -> RecordReader:
    """The reader of a batch's columns (``texts``: column ``BODY``) and those of the batches before.

    ``first`` are a few of a topic's first records, where none was known.
    """
    inferred = _infer_schema(spark, texts, first, options)
    if {"schema", "payload"} <= set(inferred.names) and "type" in getattr(inferred["schema"].dataType, "names", ()):
        raise DataError(
            "some of its records carry a schema, and the first ones did not",
            where=f"topic {subject.topic}",
            fix="set `schemas.enable` as it was, or read the records from where it changed with a new checkpoint",
        )
    known = log.get(subject)
    if known is None and not inferred.fields:
        if texts.isEmpty():
            return SchemalessReader(inferred, {}, DroppedFields(), options)
        fix = "check `format:`, and that a line is one event"
        raise DataError("none of its records is a JSON object", where=f"topic {subject.topic}", fix=fix)
    drop_names = drop_bad_key_names if subject.part == "key" else drop_bad_names
    inferred, dropped = drop_names(inferred, known, lambda name: sum(f'"{name}"' in text for text in first))
    schema: Any = inferred if known is None else add_missing_fields(known, inferred)
    known_types = log.state(subject, _KnownTypes)
    if schema != known or known_types.columns is None:  # what they are does not change without a new column
        declared = parse_declared_types(log.file_types(subject), subject.topic)
        known_types.columns = {
            **read_table_types(spark, schema, log.table_types(subject)),
            **find_declared_columns(spark, schema, declared),
        }
    columns = known_types.columns
    schema = to_table_schema(schema, columns) if columns else schema
    log.remember(subject, schema)
    return SchemalessReader(schema, columns, dropped, options)


def parse_object(text: str) -> dict[str, Any]:
    """A record that is a JSON object; empty for any other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _infer_schema(
    spark: SparkSession, texts: DataFrame, first: Sequence[str], options: Mapping[str, str]
) -> StructType:
    """A batch's columns as Spark infers them; objects stay objects where some record has a text in their place."""
    inferred = _infer_types(spark, texts, options)
    # One record that has a text there has made a text of all: it is the one that does not fit.
    torn = [
        name
        for name in _object_fields(first)
        if name in inferred.names and inferred[name].dataType.typeName() == "string"
    ]
    return _infer_types(spark, texts.where(_has_objects(torn)), options) if torn else inferred


def _infer_types(spark: SparkSession, texts: DataFrame, options: Mapping[str, str]) -> StructType:
    from pyspark.sql.types import StructType

    encoders: Any = spark._jvm.org.apache.spark.sql.Encoders  # type: ignore[union-attr]  # noqa: SLF001
    dataset = getattr(texts._jdf, "as")(encoders.STRING())  # noqa: SLF001
    # A column that is null everywhere has no type yet: it joins when its first value comes.
    reader_options = {**parse_options(options), "dropFieldIfAllNull": "true"}
    reader: Any = spark.read.options(**reader_options)._jreader  # noqa: SLF001
    with case_sensitive_names(spark):
        inferred = StructType.fromJson(json.loads(reader.json(dataset).schema().json()))
    return StructType([field for field in inferred if field.name != CORRUPT])


def _object_fields(texts: Sequence[str]) -> list[str]:
    """The fields that are objects in most records that have them."""
    is_object: dict[str, list[bool]] = {}
    for record in map(parse_object, texts):
        for name, value in record.items():
            if value is not None:
                is_object.setdefault(name, []).append(isinstance(value, dict))
    return [name for name, values in is_object.items() if 2 * sum(values) > len(values) and "'" not in name]


def _has_objects(fields: Sequence[str]) -> Column:
    """Whether each of the fields is an object in a record, where it is there."""
    from pyspark.sql import functions as F

    values = [F.get_json_object(BODY, f"$['{name}']") for name in fields]
    return reduce(lambda a, b: a & b, [value.isNull() | value.startswith("{") for value in values])
