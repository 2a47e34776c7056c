"""Decimals of Connect and Debezium: two's complement bytes of an integer, big-endian; in JSON also numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from headrace_sources.kafka_connect.connect_schema import DECIMAL, PRECISION, SCALE, ConnectSchema
from headrace_sources.limits import DECIMAL_BYTES, DECIMAL_SCALE

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, DecimalType

VARIABLE_SCALE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
#: headrace's names of Connect's Decimal as a JSON number, and of a Spark decimal in JSON.
NUMERIC_DECIMAL, JSON_DECIMAL = "decimal.format=NUMERIC", "a decimal of JSON"
#: Spark's widest decimal.
MAX_PRECISION = 38
#: Integers with this many digits fit into 64 bits.
_LONG_PLACES = 18


def decimal_type(schema: ConnectSchema) -> DataType:
    """Return DECIMAL if the schema's precision and scale fit Spark's type, else STRING."""
    from pyspark.sql.types import DecimalType, StringType

    fits = _precision(schema) <= MAX_PRECISION and _scale(schema) >= 0
    return DecimalType(_precision(schema), _scale(schema)) if fits else StringType()


def parse_type(precision: int, scale: int) -> DecimalType:
    """Return the type to parse JSON decimals with: the largest scale that fits, because Spark rounds longer values."""
    from pyspark.sql.types import DecimalType

    return DecimalType(MAX_PRECISION, MAX_PRECISION - precision + scale)


def find_rounded(schema: ConnectSchema) -> ConnectSchema | None:
    """Return the schema with only the decimals that ``parse_type`` may round, and their type with more decimal places.

    A value that does not fit that type has too many digits before the point to be checked. None without such decimals.
    """
    from pyspark.sql.types import DecimalType

    if schema.fields is not None:
        fields = {name: inner for name, item in schema.fields.items() if (inner := find_rounded(item)) is not None}
        return replace(schema, fields=fields) if fields else None
    if schema.element is not None:
        element = find_rounded(schema.element)
        return element and replace(schema, element=element)
    if schema.value is not None:
        value = find_rounded(schema.value)
        return value and replace(schema, value=value)
    if not isinstance(schema.data_type, DecimalType) or schema.name not in (None, JSON_DECIMAL):
        return None
    scale = _scale(schema) if schema.name else schema.data_type.scale
    places = scale + (MAX_PRECISION - scale) // 2
    if schema.data_type.scale >= places:
        return None
    parameters = schema.parameters or {SCALE: str(scale), PRECISION: str(MAX_PRECISION)}
    return ConnectSchema(DecimalType(MAX_PRECISION, places), JSON_DECIMAL, parameters)


def with_numeric_decimals(schema: ConnectSchema) -> ConnectSchema | None:
    """Return the schema of JSON written with ``decimal.format=NUMERIC``; None if it has no decimal."""
    changed = schema.map_leaves(_make_numeric)
    return None if changed == schema else changed


def decimal_from_bytes(number: Column, schema: ConnectSchema) -> Column:
    """Convert an integer's bytes to the schema's ``decimal_type``; null if they do not fit."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    data_type, scale = decimal_type(schema), _scale(schema)
    if isinstance(data_type, StringType):
        return _let(number, lambda number: _format_plain(number, F.lit(scale)))
    size = F.length(number)
    # Most schemas have at most 18 digits, whose integers fit into 64 bits.
    if _precision(schema) <= _LONG_PLACES:
        return F.when(size.between(1, 8), _from_long(number, scale).cast(data_type))
    any_length = _let(
        number,
        lambda number: F.concat(_sign(number), _magnitude(number).cast("string"), F.lit(f"E-{scale}")).cast(data_type),
    )
    any_length = F.when(size.between(1, 16), any_length)
    # Most values of other schemas also fit, at a sixth of the cost. Beyond 18 digits the product would be rounded.
    if scale > _LONG_PLACES:
        return any_length
    return F.when(size.between(1, 8), _from_long(number, scale).cast(data_type)).otherwise(any_length)


def _from_long(number: Column, scale: int) -> Column:
    """Return the decimal of an integer of 1 to 8 bytes."""
    from pyspark.sql import functions as F

    digits = F.hex(number)
    sign = F.translate(F.substring(digits, 1, 1), "0123456789ABCDEF", "00000000FFFFFFFF")
    whole = F.conv(F.call_function("lpad", digits, F.lit(16), sign), 16, -10).cast("bigint").cast("decimal(19,0)")
    return whole * F.lit(Decimal(1).scaleb(-scale)) if scale else whole


def decimal_from_number(number: Column, schema: ConnectSchema) -> Column:
    """Convert a JSON number to the schema's ``decimal_type``; null if its scale is larger."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType

    if isinstance(decimal_type(schema), DecimalType):
        return exact_decimal(number, schema)
    # Spark's cast to string writes small values with an exponent.
    return F.translate(F.format_number(number, max(_scale(schema), 0)), ",", "")


def exact_decimal(number: Column, schema: ConnectSchema) -> Column:
    """Convert a decimal to the schema's ``decimal_type``; null if it would be rounded."""
    from pyspark.sql import functions as F

    assert schema.data_type is not None, "the schema of a decimal"
    result = number.cast(decimal_type(schema))
    # Spark 4.1 compares two decimals after it has rounded the one with more places.
    return F.when(result.cast(schema.data_type) == number, result)


def text_from_variable_scale(struct: Column, _: ConnectSchema) -> Column:
    """Convert a VariableScaleDecimal, a struct of scale and bytes, to a string."""
    return _let(struct, lambda struct: _format_plain(struct.getField("value"), struct.getField("scale")))


def _make_numeric(leaf: ConnectSchema) -> ConnectSchema:
    from pyspark.sql.types import BinaryType

    is_decimal = leaf.name == DECIMAL and isinstance(leaf.data_type, BinaryType)
    if not is_decimal or not 0 <= _scale(leaf) <= MAX_PRECISION:
        return leaf
    data_type = parse_type(min(_precision(leaf), MAX_PRECISION), _scale(leaf))
    return replace(leaf, data_type=data_type, name=NUMERIC_DECIMAL)


def _scale(schema: ConnectSchema) -> int:
    return int(schema.parameters.get(SCALE) or 0)


def _precision(schema: ConnectSchema) -> int:
    # Not needed for types like money, which have fewer digits than Spark's widest decimal.
    return max(int(schema.parameters.get(PRECISION) or MAX_PRECISION), _scale(schema))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return ``use(value)`` with the value in the expression only once, so that it is computed once."""
    from pyspark.sql import functions as F

    return F.transform(F.array(value), use).getItem(0)


# Strings.


def _format_plain(number: Column, scale: Column) -> Column:
    """Return all digits as a string, without an exponent; null beyond the limits of bytes and scale."""
    from pyspark.sql import functions as F

    zero = F.lit(0)
    magnitude = F.when(F.length(number) <= 15, _magnitude(number).cast("string")).otherwise(_long_magnitude(number))
    places = F.greatest(scale, zero)

    is_readable = F.length(number).between(1, DECIMAL_BYTES) & scale.between(-DECIMAL_SCALE, DECIMAL_SCALE)

    def pad(digits: Column) -> Column:
        # A negative scale counts trailing zeros.
        trailing = F.when(digits == F.lit("0"), zero).otherwise(F.greatest(-scale, zero))
        leading = F.greatest(places + 1 - F.length(digits), zero)
        return F.concat(_zeros(leading), digits, _zeros(trailing))

    def insert_point(digits: Column) -> Column:
        whole = F.length(digits) - places
        text = F.concat(digits.substr(F.lit(1), whole), F.lit("."), digits.substr(whole + 1, places))
        return F.when(places > 0, text).otherwise(digits)

    text = _let(_let(magnitude, pad), insert_point)
    return F.when(is_readable, F.concat(_sign(number), text))


def _sign(number: Column) -> Column:
    """Return the sign as a string. Spark 4.0 rounds a negated decimal to 34 digits."""
    from pyspark.sql import functions as F

    return F.when(_is_negative(number), "-").otherwise("")


def _zeros(count: Column) -> Column:
    from pyspark.sql import functions as F

    return F.call_function("repeat", F.lit("0"), count)


# Absolute values.


def _magnitude(number: Column) -> Column:
    """Return the absolute value of up to 16 bytes as DECIMAL(38,0); null if it has more digits."""
    from pyspark.sql import functions as F

    def add_halves(digits: Column) -> Column:
        high = F.conv(F.substring(digits, 1, 16), 16, 10).cast("decimal(19,0)")
        low = F.conv(F.substring(digits, 17, 16), 16, 10).cast("decimal(20,0)")
        return high * F.lit(Decimal(2**64)) + low

    return _let(F.lpad(_positive_hex(number), 32, "0"), add_halves) + _one_if_negative(number)


def _is_negative(number: Column) -> Column:
    from pyspark.sql import functions as F

    return F.hex(number) >= F.lit("8")


def _positive_hex(number: Column) -> Column:
    """Return the hexadecimal digits of the number, or of -1 minus the number if it is negative."""
    from pyspark.sql import functions as F

    digits = F.hex(number)
    complement = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    return F.when(_is_negative(number), complement).otherwise(digits)


def _one_if_negative(number: Column) -> Column:
    """Return what ``_positive_hex`` omits of a negative number."""
    from pyspark.sql import functions as F

    return F.when(_is_negative(number), 1).otherwise(0)


#: Numbers beyond DECIMAL(38) are computed in groups of 18 digits, lowest first, from 14 hexadecimal digits at a time.
_GROUP_DIGITS, _HEX_DIGITS = 18, 14
_GROUP_TYPE = f"decimal({_GROUP_DIGITS},0)"


def _long_magnitude(number: Column) -> Column:
    """Return the digits of a number of any length, without its sign."""
    from pyspark.sql import functions as F

    def groups_from_hex(digits: Column) -> Column:
        steps = F.ceil(F.length(digits) / F.lit(_HEX_DIGITS)).cast("int")
        padded = F.concat(_zeros(steps * _HEX_DIGITS - F.length(digits)), digits)
        parts = _let(
            padded,
            lambda padded: F.transform(
                F.sequence(F.lit(0), steps - 1),
                lambda i: F.conv(padded.substr(i * _HEX_DIGITS + 1, F.lit(_HEX_DIGITS)), 16, 10).cast(_GROUP_TYPE),
            ),
        )
        zero = F.array(F.lit(0).cast(_GROUP_TYPE))
        return F.aggregate(parts, zero, lambda groups, part: _multiply_add(groups, 16**_HEX_DIGITS, part))

    groups = _multiply_add(_let(_positive_hex(number), groups_from_hex), 1, _one_if_negative(number).cast(_GROUP_TYPE))
    texts = F.transform(groups, lambda group: F.lpad(group.cast("string"), _GROUP_DIGITS, "0"))
    return F.regexp_replace(F.concat_ws("", F.reverse(texts)), "^0+(?=.)", "")


def _multiply_add(groups: Column, factor: int, addend: Column) -> Column:
    """Return ``groups`` times a factor plus an addend; both are smaller than a group's limit."""
    from pyspark.sql import functions as F

    limit = F.lit(Decimal(10**_GROUP_DIGITS))

    def add_group(state: Column, group: Column) -> Column:
        def split(total: Column) -> Column:
            done = F.concat(state.getField("groups"), F.array((total % limit).cast(_GROUP_TYPE)))
            carry = F.call_function("div", total, limit).cast(_GROUP_TYPE)
            return F.struct(done.alias("groups"), carry.alias("carry"))

        return _let(group * F.lit(Decimal(factor)) + state.getField("carry"), split)

    def append_carry(state: Column) -> Column:
        done, carry = state.getField("groups"), state.getField("carry")
        return F.when(carry > 0, F.concat(done, F.array(carry))).otherwise(done)

    start = F.struct(F.array().cast(f"array<{_GROUP_TYPE}>").alias("groups"), addend.alias("carry"))
    return F.aggregate(groups, start, add_group, append_carry)
