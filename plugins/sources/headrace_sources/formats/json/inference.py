"""The columns of JSON without schemas, as its data shows them.

Spark infers types, and takes an empty text for null. So the names of fields that are empty are marked in the text first: what
such a field is counts where nothing else says what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace_sources.formats.json.field_names import case_sensitive_names
from headrace_sources.formats.json.parsing import BODY, CORRUPT, is_too_deep, parse_options
from headrace_sources.kafka_connect.connect_schema import ConnectSchema
from headrace_sources.kafka_connect.connect_types import wire_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: What marks the name of a field that is an empty text, or a list of them, and of one that is an empty list or object.
_EMPTY_TEXT, _EMPTY = "_headrace_empty_text", "_headrace_empty"
#: The end of a name, behind whatever backslashes belong to it. The quotes of texts in a text have one before them.
_END_OF_NAME = r'(?<!\\)((?:\\\\)*)"'


def infer_schema(
    spark: SparkSession,
    texts: DataFrame,
    first: Sequence[str],
    options: Mapping[str, str],
    declared: Mapping[str, ConnectSchema],
) -> StructType:
    """A batch's columns as Spark infers them (``texts``: column ``BODY``).

    Objects stay objects where some record has a text in their place. A list or an object that is empty has the type that is
    ``declared`` for its column, else none.
    """
    inferred = _infer_types(spark, texts, options, declared)
    # One record that has a text there has made a text of all: it is the one that does not fit.
    torn = [
        name
        for name in _object_fields(first)
        if name in inferred.names and inferred[name].dataType.typeName() == "string"
    ]
    return _infer_types(spark, texts.where(_has_objects(torn)), options, declared) if torn else inferred


def parse_object(text: str) -> dict[str, Any]:
    """A record that is a JSON object; empty for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _infer_types(
    spark: SparkSession, texts: DataFrame, options: Mapping[str, str], declared: Mapping[str, ConnectSchema]
) -> StructType:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    types = {name: wire_type(schema) for name, schema in declared.items() if schema.data_type is None}
    text = _mark_empty_texts(F.col(BODY))
    texts = texts.where(~is_too_deep(F.col(BODY))).select(_mark_empty(text) if types else text)
    encoders: Any = spark._jvm.org.apache.spark.sql.Encoders  # type: ignore[union-attr]  # noqa: SLF001
    dataset = getattr(texts._jdf, "as")(encoders.STRING())  # noqa: SLF001
    # A column that is null everywhere has no type yet: it joins when its first value comes.
    reader_options = {**parse_options(options), "dropFieldIfAllNull": "true"}
    reader: Any = spark.read.options(**reader_options)._jreader  # noqa: SLF001
    with case_sensitive_names(spark):
        inferred = StructType.fromJson(json.loads(reader.json(dataset).schema().json()))
    schema: Any = _merge_marked(StructType([field for field in inferred if field.name != CORRUPT]), types)
    return schema  # type: ignore[no-any-return]


def _mark_empty_texts(text: Column) -> Column:
    from pyspark.sql import functions as F

    name_and_value = rf'{_END_OF_NAME}(\s*:\s*(?:(?:\[|null\s*,)\s*)*)""'
    return F.when(text.contains('""'), F.regexp_replace(text, name_and_value, f'$1{_EMPTY_TEXT}"$2"x"')).otherwise(text)


def _mark_empty(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.regexp_replace(text, rf"{_END_OF_NAME}(\s*:\s*)(?:\[\s*\]|\{{\s*\}})", f'$1{_EMPTY}"$2true')


def _merge_marked(data_type: DataType, types: Mapping[str, DataType]) -> DataType:
    """A type with the marked fields under their own names, where these have no type; ``types``: those of empty columns."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_merge_marked(data_type.elementType, types), data_type.containsNull)
    if not isinstance(data_type, T.StructType):
        return data_type
    found: dict[str, DataType | None] = {}
    for field in data_type:  # by name: what is marked comes behind what is not
        if field.name.endswith(_EMPTY):
            name = field.name.removesuffix(_EMPTY)
            found[name] = found.get(name) or types.get(name)
        else:
            name = field.name.removesuffix(_EMPTY_TEXT)
            found[name] = found.get(name) or _merge_marked(field.dataType, types)
    return T.StructType([T.StructField(name, kind) for name, kind in found.items() if name and kind])


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
