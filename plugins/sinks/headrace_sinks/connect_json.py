"""JSON of Kafka Connect's JsonConverter.

Dates and timestamps are ISO 8601 strings, as with Debezium's ``time.precision.mode: isostring``, and decimals are numbers, as with
``decimal.format: NUMERIC``: no digit is lost, and values without a schema are readable.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace_sinks.file_formats import LOCAL_MICROSECONDS, MICROSECONDS
from headrace_sinks.map_keys import write_text_keys

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium.time"
#: Name of a Spark type → Connect's type.
_TYPES = {
    "boolean": "boolean",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "binary": "bytes",
}
#: Name of a Spark type → name of the schema of its strings.
_TIMES = {"date": "IsoDate", "timestamp": "ZonedTimestamp", "timestamp_ntz": "IsoTimestamp"}
#: Options of ``to_json``. JsonConverter writes nulls, and no text depends on the time zone of the session.
_OPTIONS = {"ignoreNullFields": "false", "timeZone": "UTC", "timestampFormat": MICROSECONDS, **LOCAL_MICROSECONDS}


def encode_json(struct: Column, data_type: DataType, name: str | None) -> Column:
    """Encode a struct; null stays null. ``name``: the name of its schema, which precedes the payload; None: no schema."""
    from pyspark.sql import functions as F

    payload = F.to_json(write_text_keys(struct, data_type), _OPTIONS)
    if name is None:
        return payload
    schema = {**describe_schema(data_type, optional=False), "name": name}
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return F.concat(F.lit(f'{{"schema":{text},"payload":'), payload, F.lit("}"))


def describe_schema(data_type: DataType, *, optional: bool = True) -> dict[str, Any]:
    """Return the schema of a type as JsonConverter writes it. Types that Connect lacks are strings, as in the payload."""
    from pyspark.sql import types as T

    is_optional, string = {"optional": optional}, {"type": "string"}
    if isinstance(data_type, T.StructType):
        fields = [{**describe_schema(f.dataType, optional=f.nullable), "field": f.name} for f in data_type]
        return {"type": "struct", "fields": fields, **is_optional}
    if isinstance(data_type, T.ArrayType):
        items = describe_schema(data_type.elementType, optional=data_type.containsNull)
        return {"type": "array", "items": items, **is_optional}
    if isinstance(data_type, T.MapType):
        values = describe_schema(data_type.valueType, optional=data_type.valueContainsNull)
        return {"type": "map", "keys": {**string, "optional": False}, "values": values, **is_optional}
    if isinstance(data_type, T.DecimalType):
        digits = {"scale": f"{data_type.scale}", "connect.decimal.precision": f"{data_type.precision}"}
        return {"type": "bytes", **is_optional, "name": f"{_CONNECT}.Decimal", "version": 1, "parameters": digits}
    kind = data_type.typeName()
    if kind in _TIMES:
        return {**string, **is_optional, "name": f"{_DEBEZIUM}.{_TIMES[kind]}", "version": 1}
    return {"type": _TYPES.get(kind, "string"), **is_optional}
