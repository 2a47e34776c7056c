"""Values of columns that are read as the texts of the database. The driver would convert them with the time zone of the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

#: Widest decimal of Spark. A column of this type may be one of PostgreSQL without a precision, whose values have any number of digits.
_DIGITS = 38
#: PostgreSQL's times without end, as Debezium's connectors write them.
_LAST, _FIRST = "9999-12-31 00:00:00", "0001-01-01 00:00:00"
#: Zero dates of MariaDB and MySQL are null.
_ZERO = "0000-00-00%"


def choose_type(name: str, kind: DataType) -> DataType:
    """Return the type of the values of a column. ``name``: their type in Spark SQL; ``kind``: that of Spark's reader."""
    from pyspark.sql import types as T

    if isinstance(kind, T.ArrayType):
        return T.ArrayType(choose_type(name, kind.elementType))
    names = {"date": T.DateType(), "timestamp": T.TimestampType(), "timestamp_ntz": T.TimestampNTZType()}
    return kind if name == "decimal" else names.get(name, T.StringType())


def count_dimensions(kind: DataType) -> int:
    """Return the number of dimensions of an array; 0 for another type."""
    from pyspark.sql import types as T

    return 1 + count_dimensions(kind.elementType) if isinstance(kind, T.ArrayType) else 0


def parse_text(name: str, kind: DataType) -> tuple[Column, Column]:
    """Return the text in a column as a value of a type, and whether the type does not hold the value, which is then null."""
    from pyspark.sql import functions as F, types as T

    text = quote_name(name)
    if not isinstance(kind, T.ArrayType):
        value = _write_value(text, kind)
        return F.expr(value), F.expr(f"{text} IS NOT NULL AND {text} NOT LIKE '{_ZERO}' AND {value} IS NULL")
    # Numbers and times contain neither a comma nor a quote. An array of arrays, or with bounds of its own, has no type.
    parts = (
        f"TRANSFORM(SPLIT(SUBSTRING({text}, 2, LENGTH({text}) - 2), ','), x -> NULLIF(TRIM(BOTH '\"' FROM x), 'NULL'))"
    )
    value = _write_value("x", kind.elementType)
    is_plain = rf"{text} LIKE '{{%' AND {text} NOT LIKE '{{{{%'"
    empty = f"CAST(ARRAY() AS {kind.simpleString()})"
    values = f"CASE WHEN {text} = '{{}}' THEN {empty} WHEN {is_plain} THEN TRANSFORM({parts}, x -> {value}) END"
    is_lost = f"{text} <> '{{}}' AND (NOT ({is_plain}) OR EXISTS({parts}, x -> x IS NOT NULL AND {value} IS NULL))"
    return F.expr(values), F.coalesce(F.expr(is_lost), F.lit(False))


def _write_value(text: str, kind: DataType) -> str:
    """Return the value of a text in SQL; null for a text that the type does not hold."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StringType):
        return text
    name = kind.simpleString().upper()
    if isinstance(kind, T.DecimalType):
        exact = f"TRY_CAST({text} AS {name})"
        if kind.precision < _DIGITS:
            return exact
        return f"IF({text} RLIKE '[.][0-9]{{{kind.scale}}}[0-9]*[1-9]', NULL, {exact})"
    value = f"TRY_CAST({text} AS {name})"
    if isinstance(kind, T.TimestampType):
        # The session of the database is in UTC. A cast of a text without a zone would use the time zone of Spark's session.
        value = f"TRY_CAST(CONCAT(CAST(TRY_CAST({text} AS TIMESTAMP_NTZ) AS STRING), 'Z') AS TIMESTAMP)"
    zone = "Z" if isinstance(kind, T.TimestampType) else ""
    last, first = (f"CAST('{time}{zone}' AS {name})" for time in (_LAST, _FIRST))
    # Spark ignores the era after a date.
    return (
        f"CASE WHEN {text} = 'infinity' THEN {last} WHEN {text} = '-infinity' THEN {first} "
        f"WHEN {text} LIKE '% BC' THEN NULL ELSE {value} END"
    )
