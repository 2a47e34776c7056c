"""Keys of maps as texts. JSON and Avro have no other keys, and Spark's JSON writer takes the inner values of dates, times and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

#: Test of a type.
TypeTest = Callable[["DataType"], bool]
#: Types of keys that Spark's JSON writer writes wrong.
_INNER = ("date", "timestamp", "timestamp_ntz", "binary")


def write_text_keys(column: Column, data_type: DataType) -> Column:
    """Return a value in which maps, at any depth, have texts in place of dates, times and bytes as keys."""
    return convert_nested(column, data_type, _has_inner_keys, lambda value, _: value)


def with_text_keys(rows: DataFrame) -> DataFrame:
    """Return rows with the values of ``write_text_keys``."""
    from pyspark.sql import functions as F

    changed = [field for field in rows.schema if contains_type(field.dataType, _has_inner_keys)]
    columns = {field.name: write_text_keys(F.col(quote_name(field.name)), field.dataType) for field in changed}
    return rows.withColumns(columns) if columns else rows


def make_text_key(key: Column, data_type: DataType) -> Column:
    """Return the text of a key: ISO 8601 for dates and times, and Base64 for bytes."""
    from pyspark.sql import functions as F

    kind = data_type.typeName()
    if kind == "binary":
        return F.base64(key)
    if kind == "timestamp":
        return format_in_utc(key)
    text = key.cast("string")
    return F.translate(text, " ", "T") if kind == "timestamp_ntz" else text


def format_in_utc(timestamp: Column) -> Column:
    """Return a timestamp as an ISO string in UTC, in any time zone of the session."""
    from pyspark.sql import functions as F

    clock = F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + F.expr("INTERVAL '0.000001' SECOND") * F.unix_micros(
        timestamp
    )
    return F.concat(F.translate(clock.cast("string"), " ", "T"), F.lit("Z"))


def convert_nested(
    column: Column, data_type: DataType, is_changed: TypeTest, convert: Callable[[Column, DataType], Column]
) -> Column:
    """Return a value in which ``convert`` replaced plain values at any depth; keys of maps with such a value become texts.

    ``is_changed``: whether values of a plain type, or the keys of a type of maps, are replaced.
    """
    from pyspark.sql import functions as F, types as T

    def convert_part(part: Column, part_type: DataType) -> Column:
        return convert_nested(part, part_type, is_changed, convert)

    if not contains_type(data_type, is_changed):
        return column
    if isinstance(data_type, T.StructType):
        cells = [convert_part(column.getField(f.name), f.dataType).alias(f.name) for f in data_type]
        return F.when(column.isNotNull(), F.struct(*cells))
    if isinstance(data_type, T.ArrayType):
        element_type = data_type.elementType
        return F.transform(column, lambda item: convert_part(item, element_type))
    if isinstance(data_type, T.MapType):
        key_type, value_type = data_type.keyType, data_type.valueType
        texts = F.transform_keys(column, lambda key, _: make_text_key(key, key_type))
        return F.transform_values(texts, lambda _, value: convert_part(value, value_type))
    return convert(column, data_type)


def contains_type(data_type: DataType, test: TypeTest) -> bool:
    """Return whether a type, or a type nested in it, passes a test. Keys of maps are not tested by themselves."""
    from pyspark.sql import types as T

    if test(data_type):
        return True
    if isinstance(data_type, T.StructType):
        return any(contains_type(field.dataType, test) for field in data_type)
    if isinstance(data_type, T.ArrayType):
        return contains_type(data_type.elementType, test)
    return isinstance(data_type, T.MapType) and contains_type(data_type.valueType, test)


def _has_inner_keys(data_type: DataType) -> bool:
    from pyspark.sql import types as T

    return isinstance(data_type, T.MapType) and data_type.keyType.typeName() in _INNER
