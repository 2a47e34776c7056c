"""JSON parsed by a type, without decimals that take Spark hours to compute, and the encoding of JSON.

Spark's JSON parser gives a decimal the scale of its column: for ``1e400000000`` and ``1e-400000000`` it computes
10^400,000,000. Its cast from a string has the same problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace_sources.limits import DECIMAL_CHARACTERS, EXPONENT_DIGITS

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

#: A number with an extreme exponent outside a string.
_NUMBER = rf"(?<=[\[:,\s])-?[0-9.]++[eE][-+]?[0-9]{{{EXPONENT_DIGITS + 1},}}"
#: The sign before the exponent of an extreme number in a string.
_EXPONENT = rf"(?<=[0-9.])[eE](?=[-+]?[0-9]{{{EXPONENT_DIGITS + 1}}})"
#: The quote and first character of a string that looks like a very long decimal.
_LONG = rf'"[-+.,0-9eE](?=[-+.,0-9eE]{{{DECIMAL_CHARACTERS}}})'
#: Escape sequence for a character of a number. No writer escapes such characters.
_ESCAPED = r"(?<!\\)((?:\\\\)*+)\\u00(?:2[bBdDeE]|3[0-9]|[46]5)"
_EXTREME = f"{_EXPONENT}|{_LONG}|{_ESCAPED}"


def parse_json(text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """Return the struct of a JSON string, as Spark's ``from_json`` does. A column with an extreme decimal does not fit."""
    from pyspark.sql import functions as F

    if not _has_decimal(schema):
        return F.from_json(text, schema, dict(options))
    # Strings may contain anything, such as hexadecimal digits. If the record still fits its type with the extreme numbers replaced,
    # none of them is a decimal.
    spoiled = spoil_extreme_numbers(text)
    corrupt = F.from_json(spoiled, schema, dict(options)).getField(options["columnNameOfCorruptRecord"])
    safe = F.when(text.rlike(_EXTREME) & corrupt.isNotNull(), spoiled).otherwise(text)
    return F.from_json(safe, schema, dict(options))


def keep_utf8(text: Column) -> Column:
    """Return the string; null if its bytes are not UTF-8. Spark's JSON parser would silently replace these bytes."""
    from pyspark.sql import functions as F

    # Spark writes correct UTF-8.
    return F.when(F.format_string("%s", text) == text, text)


def spoil_extreme_numbers(text: Column, instead: str = "true") -> Column:
    """Return the string with ``instead`` of each extreme number, and with an ``x`` in each string that looks like one.

    The string stays valid JSON, so that the other columns can be read. Base64 stays valid, too.
    """
    from pyspark.sql import functions as F

    result = text
    for pattern, replacement in ((_NUMBER, instead), (_EXPONENT, "x"), (_LONG, '"x'), (_ESCAPED, "$1x")):
        result = F.regexp_replace(result, pattern, replacement)
    return F.when(text.rlike(_EXTREME), result).otherwise(text)


def _has_decimal(data_type: DataType) -> bool:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return any(_has_decimal(field.dataType) for field in data_type)
    if isinstance(data_type, T.ArrayType):
        return _has_decimal(data_type.elementType)
    if isinstance(data_type, T.MapType):
        return _has_decimal(data_type.valueType)
    return isinstance(data_type, T.DecimalType)
