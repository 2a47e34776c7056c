"""Keys of maps as texts. JSON and Avro have no other keys, and Spark's JSON writer takes the inner values of dates, times and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

#: Types of keys that Spark's JSON writer writes wrong.
_INNER = ("date", "timestamp", "timestamp_ntz", "binary")


def write_text_keys(column: Column, data_type: DataType) -> Column:
    """Return a value in which maps, at any depth, have texts in place of dates, times and bytes as keys."""
    from pyspark.sql import functions as F, types as T

    if not _has_inner_keys(data_type):
        return column
    if isinstance(data_type, T.StructType):
        cells = [write_text_keys(column.getField(f.name), f.dataType).alias(f.name) for f in data_type]
        return F.when(column.isNotNull(), F.struct(*cells))
    if isinstance(data_type, T.ArrayType):
        element_type = data_type.elementType
        return F.transform(column, lambda item: write_text_keys(item, element_type))
    assert isinstance(data_type, T.MapType), "no other type has keys"
    key_type, value_type = data_type.keyType, data_type.valueType
    texts = F.transform_keys(column, lambda key, _: make_text_key(key, key_type))
    return F.transform_values(texts, lambda _, value: write_text_keys(value, value_type))


def with_text_keys(rows: DataFrame) -> DataFrame:
    """Return rows with the values of ``write_text_keys``."""
    from pyspark.sql import functions as F

    changed = [field for field in rows.schema if _has_inner_keys(field.dataType)]
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


def _has_inner_keys(data_type: DataType) -> bool:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return any(_has_inner_keys(field.dataType) for field in data_type)
    if isinstance(data_type, T.ArrayType):
        return _has_inner_keys(data_type.elementType)
    if isinstance(data_type, T.MapType):
        return data_type.keyType.typeName() in _INNER or _has_inner_keys(data_type.valueType)
    return False
