"""Values of a DataFrame as JSON values."""

from __future__ import annotations

from datetime import UTC, date
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def to_json_value(value: Any, data_type: DataType) -> Any:
    """Convert a value: timestamps to ISO 8601 in UTC, bytes to strings with invalid UTF-8 escaped, structs to mappings by field name."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType | T.ArrayType | T.MapType) and value is not None:
        return _encode_nested(value, data_type)
    if isinstance(data_type, T.TimestampType) and value is not None:  # PySpark returns local time
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def _encode_nested(value: Any, data_type: StructType | ArrayType | MapType) -> Any:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return {field.name: to_json_value(part, field.dataType) for part, field in zip(value, data_type, strict=True)}
    if isinstance(data_type, T.ArrayType):
        return [to_json_value(item, data_type.elementType) for item in value]
    return {str(key): to_json_value(item, data_type.valueType) for key, item in value.items()}
