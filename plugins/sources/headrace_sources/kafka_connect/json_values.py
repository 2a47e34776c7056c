"""JSON parsed by a type, without decimals that take Spark hours to compute and without silently changed values.

Spark's JSON parser gives a decimal the scale of its column: for ``1e400000000`` and ``1e-400000000`` it computes
10^400,000,000. Its cast from a string has the same problem. It removes the commas of a decimal in a string, so that ``1,5`` would be
15. It reads a number above a double, such as ``1e400``, as infinity. Kafka Connect writes infinity as a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from headrace.sdk.sql import DECIMAL_CHARACTERS, EXPONENT_DIGITS
from headrace_sources.limits import INFINITE_NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

#: A number with an extreme exponent outside a string.
_NUMBER = rf"(?<=[\[:,\s])-?[0-9.]++[eE][-+]?[0-9]{{{EXPONENT_DIGITS + 1},}}"
#: The sign before the exponent of an extreme number in a string. Patterns that start with the rarest character are the fastest.
_EXPONENT = rf"[eE](?<=[0-9.][eE])(?=[-+]?[0-9]{{{EXPONENT_DIGITS + 1}}})"
#: The quote and first character of a string that looks like a very long decimal.
_LONG = rf'"[-+.,0-9eE](?=[-+.,0-9eE]{{{DECIMAL_CHARACTERS}}})'
#: The quote of a string that looks like a decimal with a comma.
_COMMA = r'"(?=[-+]?[0-9][0-9.]*+,[-+.,0-9eE]*+")'
#: Escape sequence for a character of a number. No writer escapes such characters.
_ESCAPED = r"(?<!\\)((?:\\\\)*+)\\u00(?:2[bBdDeE]|3[0-9]|[46]5)"
#: Digits of a number, or of its exponent, that may exceed a double. Text may contain them, too. Each alternative is tried once per
#: number, at its last digit.
_LARGE = r"[0-9](?![0-9])(?:\.?[eE]\+?[0-9]{3}|(?<=[0-9]{309}))"
#: A number with them outside a string.
_LARGE_NUMBER = r"(?<=[\[:,\s])-?(?:[0-9.]++[eE]\+?[0-9]{3,}+|[0-9]{309,}+[0-9.eE+-]*+)(?=[\s,\]}])"
#: Description of a record with half of a surrogate pair.
HALF_PAIR = "has an escape sequence for half of a surrogate pair, which is no character"
#: Such an escape sequence.
_HALF_PAIR = (
    r"(?<!\\)(?:\\\\)*+(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def parse_json(text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """Return the struct of a JSON string, as Spark's ``from_json`` does.

    An extreme decimal, a decimal with a comma and a number above a double do not fit.
    """
    from pyspark.sql import functions as F

    def parse(text: Column) -> Column:
        return F.from_json(text, schema, dict(options))

    has_decimal, has_double = _has_type(schema, "decimal"), _has_type(schema, "double", "float")
    # Strings may contain anything, such as hexadecimal digits. If the record still fits its type with the numbers replaced, none of
    # them is in a decimal or a double.
    spoiled = spoil_extreme_numbers(text) if has_decimal else text
    spoiled = spoil_infinite_numbers(spoiled) if has_double else spoiled
    is_corrupt = parse(spoiled).getField(options["columnNameOfCorruptRecord"]).isNotNull()
    safe = parse(F.when((spoiled != text) & is_corrupt, spoiled).otherwise(text))
    # An extreme decimal must be found before the parse; infinity is found faster in its result.
    parsed = F.when(_is_extreme(text), safe).otherwise(parse(text)) if has_decimal else parse(text)
    if not has_double:
        return parsed
    return F.transform(  # the only element: a lambda computes the struct once
        F.array(parsed), lambda parsed: F.when(_has_infinity(parsed, schema), safe).otherwise(parsed)
    ).getItem(0)


def keep_utf8(text: Column) -> Column:
    """Return the string; null if its bytes are not UTF-8. Spark's JSON parser would silently replace these bytes."""
    from pyspark.sql import functions as F

    # Spark writes correct UTF-8.
    return F.when(F.format_string("%s", text) == text, text)


def has_half_pair(text: Column) -> Column:
    """Return whether JSON has an escaped half of a surrogate pair, which is no character. Spark would replace it with a question mark."""
    return (text.contains(r"\ud") | text.contains(r"\uD")) & text.rlike(_HALF_PAIR)


def spoil_extreme_numbers(text: Column, instead: str = "true") -> Column:
    """Return the string with ``instead`` of each extreme number, and with an ``x`` in each string that looks like one or has a comma.

    The string stays valid JSON, so that the other columns can be read. Base64 stays valid, too.
    """
    from pyspark.sql import functions as F

    result = text
    for pattern, replacement in (
        (_NUMBER, instead),
        (_EXPONENT, "x"),
        (_LONG, '"x'),
        (_COMMA, '"x'),
        (_ESCAPED, "$1x"),
    ):
        result = F.regexp_replace(result, pattern, replacement)
    return F.when(_is_extreme(text), result).otherwise(text)


def _is_extreme(text: Column) -> Column:
    """Return whether a string may have an extreme number, or one with a comma. An alternation would try each pattern at each character."""
    from pyspark.sql import functions as F

    is_long = (F.length(text) > DECIMAL_CHARACTERS) & text.rlike(_LONG)
    return text.rlike(_EXPONENT) | text.rlike(_COMMA) | is_long | (text.contains(r"\u00") & text.rlike(_ESCAPED))


def spoil_infinite_numbers(text: Column, instead: str = "true") -> Column:
    """Return the string with ``instead`` of each number above a double, which would be read as infinity."""
    from pyspark.sql import functions as F

    numbers = F.array_distinct(F.regexp_extract_all(text, F.lit(_LARGE_NUMBER), F.lit(0)))
    infinite = F.filter(numbers, lambda number: F.abs(number.cast("double")) == float("inf"))
    some = F.aggregate(infinite, text, lambda text, number: F.call_function("replace", text, number, F.lit(instead)))
    # A record of many such numbers is not searched for each of them.
    result = F.when(F.size(infinite) <= INFINITE_NUMBERS, some).otherwise(
        F.regexp_replace(text, _LARGE_NUMBER, instead)
    )
    return F.when(text.rlike(_LARGE), result).otherwise(text)


def _has_infinity(value: Column, data_type: DataType) -> Column:
    """Return whether a double or float is infinite."""
    from pyspark.sql import functions as F, types as T

    if isinstance(data_type, T.StructType):
        found = [
            _has_infinity(value.getField(field.name), field.dataType)
            for field in data_type
            if _has_type(field.dataType, "double", "float")
        ]
        return F.coalesce(reduce(or_, found), F.lit(False))
    if isinstance(data_type, T.ArrayType):
        return F.exists(value, lambda element: _has_infinity(element, data_type.elementType))
    if isinstance(data_type, T.MapType):
        return F.exists(F.map_values(value), lambda element: _has_infinity(element, data_type.valueType))
    return F.coalesce(F.abs(value) == float("inf"), F.lit(False))


def _has_type(data_type: DataType, *names: str) -> bool:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return any(_has_type(field.dataType, *names) for field in data_type)
    if isinstance(data_type, T.ArrayType):
        return _has_type(data_type.elementType, *names)
    if isinstance(data_type, T.MapType):
        return _has_type(data_type.valueType, *names)
    return data_type.typeName() in names
