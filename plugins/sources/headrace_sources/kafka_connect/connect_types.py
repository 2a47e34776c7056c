"""Types of Kafka Connect and Debezium: parsed values, table values, and their conversion.

Values of equal types are not converted, unless their unit differs: times of the day are microseconds in every table, so that
a column whose precision or unit changes at the source has one unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, cast

from headrace.sdk.columns import any_of, reuse_columns
from headrace.sdk.schemas import find_spellings
from headrace_sources.kafka_connect import decimals, times
from headrace_sources.kafka_connect.connect_schema import (
    DECIMAL,
    JSON_BYTE,
    JSON_FLOAT,
    LEAF_NAMES,
    PRECISION,
    SCALE,
    ConnectSchema,
    parse_connect_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


#: Debezium's names that change nothing, and Spark's name of the type that their values have.
_SAME_TYPES = {
    **{f"io.debezium.time.{name}": "long" for name in ("MicroTime", "MicroDuration", "NanoDuration")},
    **{f"io.debezium.time.{name}": "string" for name in ("ZonedTime", "IsoTime", "Interval")},
    **{
        f"io.debezium.data.{name}": "string" for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet", "Ltree", "Tsvector")
    },
    "io.debezium.time.Year": "integer",
    "io.debezium.data.Bits": "binary",
}


@dataclass(frozen=True)
class LogicalType:
    """Table values of a named schema."""

    #: Spark's name of the type on the wire.
    wire: str
    table_type: Callable[[ConnectSchema], DataType]
    convert: Callable[[Column, ConnectSchema], Column]
    #: Whether there are values that the table's type cannot hold, which become null.
    may_fail: bool = True
    #: Whether values of equal types are converted to another unit.
    changes_unit: bool = False


def logical_type(schema: ConnectSchema) -> LogicalType | None:
    """Return the logical type of a schema's name; None if it has no known one."""
    logical = _logical_types().get(schema.name) if schema.name else None
    # A name with another base type is a third-party name: the value is not converted.
    return logical if logical is not None and logical.wire == _wire_name(schema) else None


def drop_unknown_names(schema: ConnectSchema) -> ConnectSchema:
    """Return the schema with only the names that change a value's table type."""
    if schema.fields is not None:
        schema = replace(schema, fields={name: drop_unknown_names(inner) for name, inner in schema.fields.items()})
    elif schema.element is not None:
        schema = replace(schema, element=drop_unknown_names(schema.element))
    elif schema.value is not None:
        schema = replace(schema, value=drop_unknown_names(schema.value))
    return schema if logical_type(schema) else replace(schema, name=None, parameters={})


def parse_type_name(text: str) -> ConnectSchema:
    """Return the schema of a type name of Connect or Debezium: ``int32``, ``io.debezium.time.Date``.

    A Decimal is followed by its precision and scale: ``org.apache.kafka.connect.data.Decimal(8,4)``. LookupError for any other.
    """
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType

    plain: dict[str, DataType] = {t.typeName(): t for t in (IntegerType(), LongType(), StringType(), BinaryType())}
    if found := re.fullmatch(rf"{re.escape(DECIMAL)}\((\d+), *(\d+)\)", text):
        precision, scale = map(int, found.groups())
        if not scale <= precision <= decimals.MAX_PRECISION:
            raise LookupError(text)
        return ConnectSchema(BinaryType(), DECIMAL, {PRECISION: f"{precision}", SCALE: f"{scale}"})
    if text == decimals.VARIABLE_SCALE_DECIMAL:
        return ConnectSchema(
            name=text, fields={"scale": ConnectSchema(IntegerType()), "value": ConnectSchema(BinaryType())}
        )
    if text == DECIMAL:  # its scale is unknown
        raise LookupError(text)
    if text in LEAF_NAMES:
        return parse_connect_schema({"type": text})
    wire = _SAME_TYPES.get(text) or _logical_types()[text].wire
    return ConnectSchema(plain[wire], name=text)


def to_connect_schema(data_type: DataType) -> ConnectSchema:
    """Return a Spark type as a schema, for JSON."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return ConnectSchema(fields={field.name: to_connect_schema(field.dataType) for field in data_type})
    if isinstance(data_type, T.ArrayType):
        return ConnectSchema(element=to_connect_schema(data_type.elementType))
    if isinstance(data_type, T.MapType) and isinstance(data_type.keyType, T.StringType):
        return ConnectSchema(value=to_connect_schema(data_type.valueType))
    return _to_leaf(data_type)


def _to_leaf(data_type: DataType) -> ConnectSchema:
    from pyspark.sql import types as T

    if isinstance(data_type, T.DecimalType) and data_type.precision < decimals.MAX_PRECISION:
        precision, scale = data_type.precision, data_type.scale
        parameters = {SCALE: str(scale), PRECISION: str(precision)}
        return ConnectSchema(decimals.parse_type(precision, scale), decimals.JSON_DECIMAL, parameters)
    if isinstance(data_type, T.ByteType):
        return ConnectSchema(T.ShortType(), JSON_BYTE)
    if isinstance(data_type, T.FloatType):
        return ConnectSchema(T.DoubleType(), JSON_FLOAT)
    if isinstance(data_type, T.DateType):
        return ConnectSchema(T.StringType(), times.JSON_DATE)
    if isinstance(data_type, T.TimestampType):
        return ConnectSchema(T.StringType(), times.JSON_TIMESTAMP)
    return ConnectSchema(data_type)


def wire_type(schema: ConnectSchema) -> DataType:
    """Return the Spark type to parse with."""
    return schema.data_type or _nest(schema, wire_type)


def table_type(schema: ConnectSchema) -> DataType:
    """Return the Spark type in a table."""
    logical = logical_type(schema)
    if logical is not None:
        return logical.table_type(schema)
    return schema.data_type or _nest(schema, table_type)


def convert(
    column: Column, schema: ConnectSchema, into: DataType | None = None, *, parts: Mapping[str, Column] | None = None
) -> Column:
    """Convert a parsed value to the table type ``into``, which may be wider and have other fields, or fields in another case.

    A value that the table's type cannot hold is null; ``conversion_failed`` detects it. ``parts``: fields of a struct that
    already are separate columns. The session must not be in ANSI mode.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    into = into or table_type(schema)
    if not needs_conversion(schema, into):
        return column
    logical = logical_type(schema)
    if logical is not None:
        result = logical.convert(column, schema)
        return result if logical.table_type(schema) == into else result.cast(into)
    if schema.fields is not None and isinstance(into, StructType):
        spellings = find_spellings(into.names, list(schema.fields))
        names = {f: spellings.get(f.name, f.name) for f in into}
        fields = [_convert_field(column, schema.fields, n, f.dataType, parts).alias(f.name) for f, n in names.items()]
        return F.when(column.isNotNull(), F.struct(*fields))
    if schema.element is not None and isinstance(into, ArrayType):
        element, element_type = schema.element, into.elementType
        return F.transform(column, lambda item: convert(item, element, element_type))
    if schema.value is not None and isinstance(into, MapType):
        value, value_type = schema.value, into.valueType
        return F.transform_values(column, lambda _, item: convert(item, value, value_type))
    return column.cast(into)


def needs_conversion(schema: ConnectSchema, into: DataType | None = None) -> bool:
    """Return whether parsed values differ from the values of the table type ``into``."""
    return wire_type(schema) != (into or table_type(schema)) or _has_other_unit(schema)


def _has_other_unit(schema: ConnectSchema) -> bool:
    if (logical := logical_type(schema)) is not None:
        return logical.changes_unit
    inner = [*(schema.fields or {}).values(), *filter(None, [schema.element, schema.value])]
    return any(map(_has_other_unit, inner))


def conversion_failed(
    column: Column, result: Column, schema: ConnectSchema, parts: Mapping[str, Column] | None = None
) -> Column | None:
    """Return whether a value of ``column`` is null in ``result`` because the table's type cannot hold it.

    None if that is impossible. ``result`` is the result of ``convert``, with every field of the schema.
    """
    from pyspark.sql import functions as F

    logical = logical_type(schema)
    if logical is not None:
        return column.isNotNull() & result.isNull() if logical.may_fail else None
    if schema.fields is not None:
        checks = [
            conversion_failed(_get_field(column, name, parts), result.getField(name), inner)
            for name, inner in schema.fields.items()
        ]
        failures = [check for check in checks if check is not None]
        return any_of(failures) if failures else None
    inner = schema.element or schema.value
    if inner is None or conversion_failed(column, result, inner) is None:
        return None
    if schema.value is not None:
        column, result = F.map_values(column), F.map_values(result)
    each = F.zip_with(column, result, lambda a, b: cast("Column", conversion_failed(a, b, inner)))
    return F.coalesce(F.exists(each, lambda item: item), F.lit(False))


@reuse_columns
def convert_column(
    column: str, result: str, schema: ConnectSchema, into: DataType, parts: tuple[tuple[str, str], ...] = ()
) -> tuple[Column, Column | None]:
    """Return ``convert`` of a named column, and its ``conversion_failed`` with ``result`` as the converted column.

    ``schema``: the schema of the column, which may have more fields than ``into``.
    """
    from pyspark.sql import functions as F

    by_field = {field: F.col(name) for field, name in parts}
    value = F.col(column)
    return (
        convert(value, schema, into, parts=by_field),
        conversion_failed(value, F.col(result), schema.project(into), by_field),
    )


def _convert_field(
    struct: Column,
    fields: Mapping[str, ConnectSchema],
    name: str,
    into: DataType,
    parts: Mapping[str, Column] | None,
) -> Column:
    from pyspark.sql import functions as F

    if name not in fields:
        return F.lit(None).cast(into)
    return convert(_get_field(struct, name, parts), fields[name], into)


def _get_field(struct: Column, name: str, parts: Mapping[str, Column] | None) -> Column:
    return parts[name] if parts and name in parts else struct.getField(name)


def _nest(schema: ConnectSchema, type_of: Callable[[ConnectSchema], DataType]) -> DataType:
    """Return the Spark type of a schema from its children's types."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if schema.fields is not None:
        return StructType([StructField(name, type_of(inner)) for name, inner in schema.fields.items()])
    if schema.element is not None:
        return ArrayType(type_of(schema.element))
    assert schema.value is not None, "a schema without a type of its own has children"
    return MapType(StringType(), type_of(schema.value))


def _wire_name(schema: ConnectSchema) -> str:
    if schema.data_type is not None:
        return schema.data_type.typeName()
    return "struct" if schema.fields is not None else ""


@cache
def _logical_types() -> dict[str, LogicalType]:
    from pyspark.sql import functions as F, types as T

    def always(data_type: DataType) -> Callable[[ConnectSchema], DataType]:
        return lambda schema: data_type

    def small_integer(bits: int, data_type: DataType) -> LogicalType:
        limit = 1 << bits - 1
        return LogicalType(
            "integer", always(data_type), lambda c, schema: F.when(c.between(-limit, limit - 1), c.cast(data_type))
        )

    date, timestamp, timestamp_ntz = always(T.DateType()), always(T.TimestampType()), always(T.TimestampNTZType())
    days = LogicalType("integer", date, lambda c, schema: times.date_from_days(c))
    millis = LogicalType("long", timestamp_ntz, lambda c, schema: times.timestamp_from_millis(c))
    micros = LogicalType("long", timestamp_ntz, lambda c, schema: times.timestamp_from_micros(c), may_fail=False)
    nanos = LogicalType("long", timestamp_ntz, lambda c, schema: times.timestamp_from_nanos(c), may_fail=False)
    iso_timestamp = LogicalType(
        "string", timestamp_ntz, lambda c, schema: times.timestamp_from_text(c, "timestamp_ntz")
    )
    long = always(T.LongType())
    time = LogicalType("integer", long, lambda c, schema: c.cast("long") * 1000, may_fail=False)
    nano_time = LogicalType(
        "long", long, lambda c, schema: times.micros_from_nanos(c), may_fail=False, changes_unit=True
    )
    debezium, connect = "io.debezium.time.", "org.apache.kafka.connect.data."
    return {
        f"{debezium}Date": days,
        f"{connect}Date": days,
        f"{debezium}Time": time,
        f"{connect}Time": time,
        f"{debezium}NanoTime": nano_time,
        f"{debezium}Timestamp": millis,
        f"{connect}Timestamp": millis,
        f"{debezium}MicroTimestamp": micros,
        f"{debezium}NanoTimestamp": nanos,
        f"{debezium}ZonedTimestamp": LogicalType("string", timestamp, lambda c, schema: times.timestamp_from_text(c)),
        f"{debezium}IsoTimestamp": iso_timestamp,
        f"{debezium}IsoDate": LogicalType("string", date, lambda c, schema: times.date_from_text(c)),
        DECIMAL: LogicalType("binary", decimals.decimal_type, decimals.decimal_from_bytes),
        decimals.VARIABLE_SCALE_DECIMAL: LogicalType(
            "struct", always(T.StringType()), decimals.text_from_variable_scale
        ),
        # Avro converters mark an int that was a smaller type.
        "int8": small_integer(8, T.ByteType()),
        "int16": small_integer(16, T.ShortType()),
        **_json_types(),
    }


def _json_types() -> dict[str, LogicalType]:
    """Return headrace's own types, of values in JSON."""
    from pyspark.sql import functions as F, types as T

    return {
        decimals.NUMERIC_DECIMAL: LogicalType("decimal", decimals.decimal_type, decimals.decimal_from_number),
        decimals.JSON_DECIMAL: LogicalType("decimal", decimals.decimal_type, decimals.exact_decimal),
        times.JSON_DATE: LogicalType(
            "string", lambda schema: T.DateType(), lambda c, schema: times.date_from_json(c, schema.parameters)
        ),
        times.JSON_TIMESTAMP: LogicalType(
            "string",
            lambda schema: T.TimestampType(),
            lambda c, schema: times.timestamp_from_json(c, schema.parameters),
        ),
        JSON_FLOAT: LogicalType("double", lambda schema: T.FloatType(), lambda c, schema: _float_from_double(c)),
        JSON_BYTE: LogicalType(
            "short", lambda schema: T.ByteType(), lambda c, schema: F.when(c.between(-128, 127), c.cast("tinyint"))
        ),
    }


def _float_from_double(number: Column) -> Column:
    """Convert a double to FLOAT; null for a number above a float. Infinity and NaN, which are strings in JSON, stay."""
    from pyspark.sql import functions as F

    result = number.cast("float")
    return F.when((F.abs(result) < float("inf")) | (F.abs(number) >= float("inf")), result)
