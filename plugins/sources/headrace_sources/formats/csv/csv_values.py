"""Values of CSV columns, from their texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name
from headrace.sdk.sql import limit_decimal_text

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

#: Option of Spark's CSV reader with the pattern of a type.
_PATTERNS = {"date": "dateFormat", "timestamp": "timestampFormat", "timestamp_ntz": "timestampNTZFormat"}
#: Texts that become dates and times as a whole. Spark reads a time without a date as one of today, and drops what the type lacks.
_DATE = r"^[+-]?[0-9]{4,7}(-[0-9]{1,2}){0,2}"
_FORMS = {
    "date": _DATE + r"([ T]0?0:0?0(:0?0([.]0*)?)?)?$",
    "timestamp": _DATE + "($|[ T])",
    "timestamp_ntz": _DATE + r"($|[ T][0-9:.]*$)",
}
#: Texts of an infinite number. Spark reads numbers beyond the type as infinite, too.
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
#: A time with a zone.
_ZONE = "[ T].*[A-Za-z+-]"
#: A character that is in no time, so that the text stays one field.
_SEPARATOR = "\x01"
#: Digits of Spark's widest decimal.
_DIGITS = 38


def parse_value(text: str, kind: DataType, options: Mapping[str, str]) -> Column:
    """Return the text in a column as a value of a type; null for a text that does not fit."""
    from pyspark.sql import functions as F

    if pattern := options.get(_PATTERNS.get(kind.typeName(), "")):
        reader = {"sep": _SEPARATOR, "locale": options.get("locale", "en-US"), "timeZone": "UTC"}
        reader[_PATTERNS[kind.typeName()]] = pattern
        return F.from_csv(F.col(text), f"value {kind.simpleString()}", reader).getField("value")
    own = limit_decimal_text(quote_name(text)) if kind.typeName() == "decimal" else quote_name(text)
    value = F.expr(f"TRY_CAST({own} AS {kind.simpleString()})")
    if kind.typeName() in ("float", "double"):
        return F.when((F.abs(value) != float("inf")) | F.trim(text).rlike(_INFINITE), value)
    if (form := _FORMS.get(kind.typeName())) is None:
        return value
    if kind.typeName() == "timestamp":
        # A cast of a time without a zone would use the time zone of the session.
        local = f"TRY_CAST(CONCAT(CAST(TRY_CAST({quote_name(text)} AS TIMESTAMP_NTZ) AS STRING), 'Z') AS TIMESTAMP)"
        value = F.when(F.trim(text).rlike(_ZONE), value).otherwise(F.expr(local))
    return F.when(F.trim(text).rlike(form), value)


def is_rounded(text: str, kind: DataType) -> Column:
    """Return whether the text in a column is a number with more decimal places than its type."""
    from pyspark.sql import functions as F, types as T

    if not isinstance(kind, T.DecimalType):
        return F.lit(False)
    more_places = F.col(text).rlike(rf"\.[0-9]{{{kind.scale}}}[0-9]*[1-9]")
    # A number with an exponent has other places than its text.
    exact = parse_value(text, T.DecimalType(_DIGITS, _DIGITS - kind.precision + kind.scale), {})
    return F.when(F.col(text).rlike("[eE]"), exact != parse_value(text, kind, {})).otherwise(more_places)
