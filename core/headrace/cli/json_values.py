"""Values of a DataFrame as JSON has them."""

from __future__ import annotations

from datetime import UTC, date
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def plain(value: Any, kind: DataType) -> Any:
    """Times as ISO 8601 in UTC; bytes as text, with what is not UTF-8 escaped; structs by field name."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType | T.ArrayType | T.MapType) and value is not None:
        return _nested(value, kind)
    if isinstance(kind, T.TimestampType) and value is not None:  # PySpark gives it in the zone of this machine
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def _nested(value: Any, kind: StructType | ArrayType | MapType) -> Any:
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return {field.name: plain(part, field.dataType) for part, field in zip(value, kind, strict=True)}
    if isinstance(kind, T.ArrayType):
        return [plain(item, kind.elementType) for item in value]
    return {str(key): plain(item, kind.valueType) for key, item in value.items()}
