"""Columns of JSON without schemas, inferred from the data.

Spark infers types, but reads an empty string as null. Therefore the names of empty fields are first marked in the string. The
type of an empty field counts if no other record determines it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace_sources.formats.json.field_names import case_sensitive_names
from headrace_sources.formats.json.object_shapes import find_most_objects, find_objects, has_shape
from headrace_sources.formats.json.parsing import BODY, CORRUPT, is_too_deep, parse_options
from headrace_sources.kafka_connect.connect_schema import ConnectSchema
from headrace_sources.kafka_connect.connect_types import wire_type
from headrace_sources.kafka_connect.json_values import (
    has_half_pair,
    keep_utf8,
    spoil_extreme_numbers,
    spoil_infinite_numbers,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: Marks of the names of fields that are an empty string or a list of these, and an empty list or object.
_EMPTY_TEXT, _EMPTY = "_headrace_empty_text", "_headrace_empty"
#: End of a name, after its backslashes. A backslash precedes the quotes inside a string.
_END_OF_NAME = r'(?<!\\)((?:\\\\)*)"'


def infer_schema(
    spark: SparkSession,
    texts: DataFrame,
    first: Sequence[str],
    options: Mapping[str, str],
    declared: Mapping[str, ConnectSchema],
    known: StructType | None = None,
) -> StructType:
    """Infer a batch's columns with Spark (``texts``: column ``BODY``). ``known``: columns of earlier batches.

    Objects stay objects if a record has another value instead, which does not fit. An empty list or object has the ``declared`` type
    of its column, else none.
    """
    from pyspark.sql.types import StructType

    inferred = _infer_types(spark, texts, options, declared)
    objects = find_objects(known) if known is not None else find_most_objects(list(map(parse_object, first)))
    if not isinstance(objects, StructType) or has_shape(inferred, objects):
        return inferred
    # A single value of another kind has turned all objects of its field into strings, and their new fields would be lost.
    return _infer_types(spark, texts.where(_fits(objects, options)), options, declared)


def parse_object(text: str) -> dict[str, Any]:
    """Return a record that is a JSON object; empty for any other string."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def has_null_schema(record: Mapping[str, Any]) -> bool:
    """Return whether a record has null as its schema, and a payload."""
    return set(record) == {"schema", "payload"} and record["schema"] is None


def _infer_types(
    spark: SparkSession, texts: DataFrame, options: Mapping[str, str], declared: Mapping[str, ConnectSchema]
) -> StructType:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    types = {name: wire_type(schema) for name, schema in declared.items() if schema.data_type is None}
    body = F.col(BODY)
    # Spark would infer a decimal without digits for an extreme number, and a double for a number above it.
    text = spoil_infinite_numbers(body, "null")
    text = _mark_empty_texts(spoil_extreme_numbers(text, "null") if options.get("prefersDecimal") == "true" else text)
    is_json = keep_utf8(body).isNotNull() & ~is_too_deep(body) & ~has_half_pair(body)
    texts = texts.where(is_json).select(_mark_empty(text) if types else text)
    encoders: Any = spark._jvm.org.apache.spark.sql.Encoders  # type: ignore[union-attr]  # noqa: SLF001
    dataset = getattr(texts._jdf, "as")(encoders.STRING())  # noqa: SLF001
    # A column that is always null has no type yet: it is added with its first value.
    reader_options = {**parse_options(options), "dropFieldIfAllNull": "true"}
    reader: Any = spark.read.options(**reader_options)._jreader  # noqa: SLF001
    with case_sensitive_names(spark):
        inferred = StructType.fromJson(json.loads(reader.json(dataset).schema().json()))
    schema: Any = _merge_marked(StructType([field for field in inferred if field.name != CORRUPT]), types)
    return schema  # type: ignore[no-any-return]


def _mark_empty_texts(text: Column) -> Column:
    from pyspark.sql import functions as F

    name_and_value = rf'{_END_OF_NAME}(\s*:\s*(?:(?:\[|null\s*,)\s*)*+)""'
    return F.when(text.contains('""'), F.regexp_replace(text, name_and_value, f'$1{_EMPTY_TEXT}"$2"x"')).otherwise(text)


def _mark_empty(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.regexp_replace(text, rf"{_END_OF_NAME}(\s*:\s*)(?:\[\s*\]|\{{\s*\}})", f'$1{_EMPTY}"$2true')


def _merge_marked(data_type: DataType, types: Mapping[str, DataType]) -> DataType:
    """Rename the marked fields whose own names have no type; ``types``: types of empty columns."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_merge_marked(data_type.elementType, types), data_type.containsNull)
    if not isinstance(data_type, T.StructType):
        return data_type
    found: dict[str, DataType | None] = {}
    for field in data_type:  # sorted by name: marked fields follow the others
        if field.name.endswith(_EMPTY):
            name = field.name.removesuffix(_EMPTY)
            found[name] = found.get(name) or types.get(name)
        else:
            name = field.name.removesuffix(_EMPTY_TEXT)
            found[name] = found.get(name) or _merge_marked(field.dataType, types)
    return T.StructType([T.StructField(name, kind) for name, kind in found.items() if name and kind])


def _fits(objects: StructType, options: Mapping[str, str]) -> Column:
    """Return whether a record has no other values instead of objects."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*objects, StructField(CORRUPT, StringType())])
    return F.from_json(BODY, schema, parse_options(options)).getField(CORRUPT).isNull()
