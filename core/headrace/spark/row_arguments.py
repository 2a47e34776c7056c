"""Arguments that are literals in an expression over a row, because a function fails for some values of a column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.spark.regular_expressions import MAX_REPETITIONS, find_repetition

#: Greatest size of a computed text or array.
MAX_SIZE = 1_000


class Computed:
    """Placeholder of an argument that is not a literal."""


#: Type of Spark → a value of Java's type for it. Java formats the values of other types as texts.
_SAMPLES = {**dict.fromkeys(("byte", "short", "integer", "long"), 1), **dict.fromkeys(("float", "double"), 1.5)}
#: Literals of a call in Python, by position.
Values = Sequence[Any]


class Kind(NamedTuple):
    """Kind of an argument: its name, how to avoid it, and a function that returns what is wrong with a literal, or None."""

    name: str
    fix: str
    find_error: Callable[[Any, Values], str | None] = lambda _value, _values: None


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm  # noqa: SLF001 - Spark checks these literals only when rows are read


def _call(function: Callable[[], object]) -> str | None:
    """Return the first line of the error of a function of Java, or None."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.base import PySparkException

    try:
        function()
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage()).strip().splitlines()[0]
    except PySparkException as error:
        return str(error).strip().splitlines()[0]
    return None


def _find_error_of_zone(zone: Any, _: Values) -> str | None:
    utilities = _jvm().org.apache.spark.sql.catalyst.util.DateTimeUtils
    return _call(lambda: utilities.getZoneId(str(zone)))


def _find_error_of_pattern(pattern: Any, _: Values) -> str | None:
    if error := _call(lambda: _jvm().java.util.regex.Pattern.compile(str(pattern))):
        return rf"it does not compile: {error}. A `\` is written `\\` in SQL"
    if repetition := find_repetition(str(pattern)):
        return (
            f"it {repetition}, and a long text would end the process. Write at most {MAX_REPETITIONS} repetitions, as in "
            "`(…){0,100}`, a possessive group `(…)*+`, or a class such as `[ab]*`"
        )
    return None


def _count_groups(pattern: Any) -> int:
    return int(_jvm().java.util.regex.Pattern.compile(str(pattern)).matcher("").groupCount())


def _find_error_of_group(group: Any, values: Values) -> str | None:
    count = _count_groups(values[1])
    return None if isinstance(group, int) and 0 <= group <= count else f"the regular expression has {count} groups"


def _find_error_of_replacement(text: Any, values: Values) -> str | None:
    names = re.sub(r"\\.", "", str(text), flags=re.DOTALL)
    groups = re.findall(r"\$(\d?)", names)
    is_valid = "\\" not in names and all(group and int(group) <= _count_groups(values[1]) for group in groups)
    return (
        None
        if is_valid
        else r"it has a `\` at its end, or a `$` without the number of a group. Write `\\$` for a dollar"
    )


def _find_error_of_size(size: Any, _: Values) -> str | None:
    is_valid = isinstance(size, int) and abs(size) <= MAX_SIZE
    return None if is_valid else f"it is no number up to {MAX_SIZE:,}"


def _find_error_of_decimals(decimals: Any, values: Values) -> str | None:
    return None if isinstance(decimals, str) else _find_error_of_size(decimals, values)


def _find_error_of_index(index: Any, _: Values) -> str | None:
    return "the first index is 1" if index == 0 and not isinstance(index, bool) else None


def _find_error_of_place(place: Any, values: Values) -> str | None:
    return _find_error_of_index(place, values) or _find_error_of_size(place, values)


def _find_error_of_length(length: Any, _: Values) -> str | None:
    return None if isinstance(length, int) and length >= 0 else "it is no number from 0"


def _find_error_of_position(position: Any, _: Values) -> str | None:
    return None if isinstance(position, int) and position > 0 else "it is no number from 1"


def _find_error_of_bit(bit: Any, _: Values) -> str | None:
    return None if isinstance(bit, int) and 0 <= bit < 8 * 8 else "it is no number from 0 to 63"


def _find_error_of_format(text: Any, _: Values) -> str | None:
    if re.search("(?<!D)DD(?!D)", str(text)):
        return "DD fails for the 100th day of a year. Write DDD, or dd for the day of the month"
    return None


def _find_error_of_parsed_format(text: Any, _: Values) -> str | None:
    years = _list_years(str(text))
    if any(len(year[0]) not in (2, 4) for year in years) or (years and find_long_year(str(text)) == ""):
        return (
            "a text such as +999999999-01-01 overflows. Write a year of four digits as yyyy, and not directly behind other digits; or "
            "CAST(… AS DATE) or CAST(… AS TIMESTAMP) for texts of ISO 8601"
        )
    return None


def _list_years(text: str) -> list[re.Match[str]]:
    return list(re.finditer("[yu]+", re.sub("'[^']*'", lambda quoted: "'" * len(quoted[0]), text)))


def find_long_year(text: str) -> str | None:
    """Return a regular expression of texts that have a year of five digits or more for a format with years of four digits.

    A longer year has a sign. The result is None for a format without such years, and empty if the format may have other signs there.
    """
    years = [year.start() for year in _list_years(text) if len(year[0]) == 4]
    if not years:
        return None
    if all(place == 0 or text[place - 1] in " .,:;/_-" for place in years):
        return "(^|[^0-9])[+-][0-9]{5}"
    return "" if re.search(r"[-+XxZzVO]", text) else "[+-][0-9]{5}"


def _find_error_of_like(pattern: Any, values: Values) -> str | None:
    escape = str(values[2]) if len(values) > 2 else "\\"
    rest = re.sub(f"{re.escape(escape)}[_%{re.escape(escape)}]", "", str(pattern))
    return f"{escape} is not before %, _ or {escape}. A `\\` is written `\\\\` in SQL" if escape in rest else None


def _find_error_of_template(text: Any, _: Values) -> str | None:
    for width, conversion in re.findall(r"%[-#+ 0,(<\d$]*?(\d*)(?:\.\d+)?([^-#+ 0,(<\d$.])", str(text)):
        if conversion not in "sSdoxXfeEgGbB%n":
            return f"%{conversion} fails for some values. Write %s"
        if int(width or 0) > MAX_SIZE:
            return f"the width is more than {MAX_SIZE:,}"
    return None


def find_error_of_types(arguments: Sequence[Any]) -> str | None:
    """Return why a format does not fit the types of its values, which are expressions of Spark; None if it does."""
    from pyspark import SparkContext

    template, *values = arguments
    samples = SparkContext._gateway.new_array(_jvm().java.lang.Object, len(values))  # type: ignore[union-attr]  # noqa: SLF001
    for n, value in enumerate(values):
        samples[n] = _SAMPLES.get(str(value.dataType().typeName()), "text")
    return _call(lambda: _jvm().java.lang.String.format(str(template), samples))


def _find_error_of_key(key: Any, _: Values) -> str | None:
    size = len(key if isinstance(key, bytes | bytearray) else str(key).encode())
    return None if size in (16, 24, 32) else f"it has {size} bytes, and not 16, 24 or 32"


def _one_of(*names: str) -> Callable[[Any, Values], str | None]:
    return lambda value, _: None if str(value).upper() in names else f"write one of {', '.join(names)}"


def _find_error_of_options(options: Any, _: Values) -> str | None:
    """``options``: the literals of `map(…)`."""
    if isinstance(options, list) and any(str(value).strip().lower() == "failfast" for value in options):
        return "FAILFAST fails the batch for one invalid value. Write PERMISSIVE"
    return None


_ZONE = Kind("time zone", "write it as a text in quotes, with a CASE for several zones", _find_error_of_zone)
_PATTERN = Kind(
    "regular expression",
    "write it as a text in quotes; for a part of a text, contains, startswith or endswith",
    _find_error_of_pattern,
)
_LIKE = Kind(
    "pattern",
    "write it as a text in quotes; for a part of a text, contains, startswith or endswith",
    _find_error_of_like,
)
_ESCAPE = Kind("escape character", "write it as a text in quotes")
_GROUP = Kind("number of the group", "write it as a number", _find_error_of_group)
_REPLACEMENT = Kind(
    "replacement", r"write it as a text in quotes, or use `replace` for texts", _find_error_of_replacement
)
_SIZE = Kind("size", f"write it as a number up to {MAX_SIZE:,}", _find_error_of_size)
_MONTHS = Kind("number of months", "write it as a number; or try_add(…, make_interval(0, …))", _find_error_of_size)
_COUNT = Kind("count", "write it as a number", _find_error_of_size)
_DECIMALS = Kind("format", "write it as a literal", _find_error_of_decimals)
_INDEX = Kind(
    "index", "write it as a number; or `map[key]`, and `get(array, index)`, which counts from 0", _find_error_of_index
)
_PART = Kind(
    "number of the part", "write it as a number; or `get(split(…), index)`, which counts from 0", _find_error_of_index
)
_PLACE = Kind("index", f"write it as a number up to {MAX_SIZE:,}", _find_error_of_place)
_LENGTH = Kind("length", "write it as a number", _find_error_of_length)
_POSITION = Kind("position", "write it as a number", _find_error_of_position)
_BIT = Kind("position of the bit", "write it as a number", _find_error_of_bit)
_FORMAT = Kind("format", "write it as a text in quotes", _find_error_of_format)
PARSED = Kind("format", "write it as a text in quotes", _find_error_of_parsed_format)
_TEMPLATE = Kind("format", "write it as a text in quotes", _find_error_of_template)
_KEY = Kind("key", "write it as a literal", _find_error_of_key)
_LITERAL = Kind("option", "write it as a literal")
_ENCODING = Kind(
    "charset",
    "write UTF-8 or another UTF charset in quotes",
    _one_of("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32"),
)
_DECODING = Kind("charset", "write 'ISO-8859-1', or CAST(… AS STRING) for UTF-8", _one_of("ISO-8859-1"))
_ORDER = Kind("order", "write array_sort(array), or sort_array(array, false) for the descending order")
_OPTIONS = Kind("options", "write map(…) of texts in quotes", _find_error_of_options)


def _same(names: str, positions: Mapping[int, Kind]) -> dict[str, Mapping[int, Kind]]:
    return dict.fromkeys(names.split(), positions)


#: Function, also one of an operator → position → kind of the literal. Positions below 0 count from the last argument.
LITERALS: Mapping[str, Mapping[int, Kind]] = {
    **_same("from_utc_timestamp to_utc_timestamp", {1: _ZONE}),
    "convert_timezone": {-3: _ZONE, -2: _ZONE},
    **_same(
        "make_timestamp make_timestamp_ltz make_timestamp_ntz try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz",
        {6: _ZONE},
    ),
    **_same("rlike regexp regexp_like regexp_count regexp_instr regexp_substr split", {1: _PATTERN}),
    **_same("regexp_extract regexp_extract_all", {1: _PATTERN, 2: _GROUP}),
    "regexp_replace": {1: _PATTERN, 2: _REPLACEMENT, 3: _POSITION},
    **_same("parse_url try_parse_url", {2: _PATTERN}),
    **_same("like ilike", {1: _LIKE, 2: _ESCAPE}),
    "encode": {1: _ENCODING},
    "decode": {1: _DECODING},
    **_same("repeat array_repeat lpad rpad", {1: _SIZE}),
    "add_months": {1: _MONTHS},
    "space": {0: _SIZE},
    "sequence": {0: _SIZE, 1: _SIZE, 2: _SIZE},
    "format_number": {1: _DECIMALS},
    **_same("format_string printf", {0: _TEMPLATE}),
    **_same("element_at try_element_at", {1: _INDEX}),
    "array_sort": {1: _ORDER},
    "array_insert": {1: _PLACE},
    "substring_index": {2: _COUNT},
    "slice": {1: _INDEX, 2: _LENGTH},
    "split_part": {2: _PART},
    **_same("bit_get getbit", {1: _BIT}),
    **_same("date_format from_unixtime to_char to_varchar", {1: _FORMAT}),
    **_same(
        "to_date to_timestamp to_timestamp_ltz to_timestamp_ntz try_to_date try_to_timestamp to_unix_timestamp unix_timestamp",
        {1: PARSED},
    ),
    "aes_encrypt": {1: _KEY, 2: _LITERAL, 3: _LITERAL, 4: _LITERAL},
    **_same("from_json from_csv", {2: _OPTIONS}),
}
