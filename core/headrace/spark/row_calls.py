"""Check of a parsed expression over a row: no call and no operator may fail for some value of a column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headrace.errors import ConfigError
from headrace.spark.parsed_nodes import class_name, is_interval, items, read_literal
from headrace.spark.row_arguments import LITERALS, Computed, Kind, find_error_of_types
from headrace.spark.row_functions import ALLOWED, FORBIDDEN, OTHER_ROWS, REFUSED
from headrace.spark.row_rewrites import TRIED, find_operator
from headrace.suggestions import did_you_mean

FIX = "use functions of the row's own columns"
FAILS = "which fails the batch for one invalid value"
_OPERATORS = {"RLike": "rlike", "Like": "like", "ILike": "ilike"}
_ARITHMETIC = ("Add", "Subtract", "Multiply", "Divide")
_DECIMAL = re.compile(r"\b(decimal|dec|numeric)\b", re.IGNORECASE)
_TRY = "write try_add, try_subtract, try_multiply or try_divide, which return null"
#: Spark's classes of operators over dates and times that fail for values out of range → what to write instead.
_INTERVALS = {
    **dict.fromkeys(("TimestampAdd",), REFUSED["timestampadd"]),
    **dict.fromkeys(
        ("TimeAdd", "TimestampAddInterval", "TimestampAddYMInterval", "DateAddInterval", "DateAddYMInterval"), _TRY
    ),
    **dict.fromkeys(("MultiplyInterval", "MultiplyDTInterval", "MultiplyYMInterval"), _TRY),
    **dict.fromkeys(("DivideInterval", "DivideDTInterval", "DivideYMInterval"), _TRY),
    "SubtractDates": "write datediff(…, …)",
    "SubtractTimestamps": "write unix_micros(…) - unix_micros(…)",
}


def check_call(text: str, node: Any) -> None:
    """Raise ConfigError for a function or an operator that fails for some value of a column."""
    kind = class_name(node)
    if kind == "UnresolvedFunction":
        name = ".".join(map(str, items(node.nameParts()))).lower()
        check_name(text, name)
        _check_arguments(text, name, [read_literal(argument) for argument in items(node.arguments())])
    elif kind in _OPERATORS:
        escapes = [] if kind == "RLike" else [str(node.escapeChar())]
        _check_arguments(text, _OPERATORS[kind], [*map(read_literal, items(node.children())), *escapes])
    elif kind in TRIED and find_operator(text, node) is not None:
        return
    elif kind in _ARITHMETIC and any(is_interval(child) for child in items(node.children())):
        raise ConfigError(f"{text!r} calculates with an interval, {FAILS}", fix=_TRY)
    else:
        check_operator(text, node)


def check_operator(text: str, node: Any) -> None:
    """Raise ConfigError for an operator, parsed or analyzed, that fails for some value of a column."""
    kind = class_name(node)
    if kind in _INTERVALS:
        raise ConfigError(f"{text!r} calculates with dates and times ({kind}), {FAILS}", fix=_INTERVALS[kind])
    if kind == "Cast" and "interval" in str(node.dataType().typeName()) and str(node.evalMode()) != "TRY":
        raise ConfigError(f"{text!r} casts to an interval, {FAILS}", fix="write make_interval with numbers")
    # Spark 4.1 rounds the number to 34 digits, and it may then have one more digit than its type.
    if kind == "UnaryMinus" and _count_digits(node) > 34:
        raise ConfigError(f"{text!r} negates a decimal of more than 34 digits, {FAILS}", fix="write 0 - …")
    if kind == "FormatString" and (error := find_error_of_types(list(items(node.children())))):
        raise ConfigError(f"{text!r} has a format for other types than those of its values: {error}", fix="write %s")


def _count_digits(node: Any) -> int:
    """Return the digits of a resolved decimal; 0 for another type."""
    kind = node.dataType() if node.resolved() else None
    return int(kind.precision()) if kind is not None and str(kind.typeName()).startswith("decimal") else 0


def check_name(text: str, name: str) -> None:
    """Raise ConfigError for a function that is not known to return a value or null for every row."""
    if name in FORBIDDEN:
        raise ConfigError(f"{text!r} calls {name}, which is not a function of the row", fix=FORBIDDEN[name])
    if name in OTHER_ROWS:
        raise ConfigError(f"{text!r} calls {name}, which needs other rows than its own", fix=OTHER_ROWS[name])
    if name in REFUSED:
        raise ConfigError(f"{text!r} calls {name}, {FAILS}", fix=REFUSED[name])
    if name not in ALLOWED and name not in LITERALS and name != "map":
        fix = did_you_mean(name, sorted(ALLOWED | LITERALS.keys()))
        raise ConfigError(f"{text!r} calls {name}, which is no known function of a row", fix=fix)


def _check_arguments(text: str, name: str, values: list[Any]) -> None:
    if name == "map":
        _check_keys(text, values[::2])
    if name in ("regexp_extract", "regexp_extract_all") and len(values) == 2:
        values = [*values, 1]  # the first group
    if name in ("from_json", "from_csv") and len(values) > 1 and _DECIMAL.search(str(values[1])):
        fix = "write the type STRING, then CAST(… AS DECIMAL(…)) for the field; or use the transform `expand`"
        raise ConfigError(f"{text!r} reads a DECIMAL with {name}, which needs hours for some values", fix=fix)
    for position, kind in _list_kinds(name, len(values)):
        value = values[position]
        if value is Computed:
            raise ConfigError(f"{text!r} computes the {kind.name} of {name}, {FAILS}", fix=kind.fix)
        if value is not None and (error := kind.find_error(value, values)):
            raise ConfigError(f"{text!r} calls {name} with the {kind.name} {value!r}: {error}", fix="correct it")


def _list_kinds(name: str, count: int) -> Iterator[tuple[int, Kind]]:
    """Yield the positions of the literals in a call with a number of arguments, and their kinds."""
    if name == "decode" and count > 2:  # It compares values.
        return
    for position, kind in LITERALS.get(name, {}).items():
        if -count <= position < count:
            yield position % count, kind


def _check_keys(text: str, keys: list[Any]) -> None:
    if Computed in keys or None in keys or len({str(key) for key in keys}) < len(keys):
        raise ConfigError(
            f"{text!r} makes a map of keys that may be equal or null, {FAILS}",
            fix="write each key as a different text in quotes, or make a struct with named_struct",
        )
