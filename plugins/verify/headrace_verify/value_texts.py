"""One text form of each value, as SQL of the database and as SQL of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace_verify.source_table import SourceColumn

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: Stands for null. A text of other columns begins with its length or has other letters.
NULL = "N"


class Sql(Protocol):
    """SQL of a database, or of Spark.

    ``noun``: names its tables in messages; ``byte_length``: function for a text's length in bytes.
    """

    @property
    def noun(self) -> str: ...
    @property
    def byte_length(self) -> str: ...
    def quote(self, name: str) -> str:
        """Return a quoted name."""

    def concat(self, *texts: str) -> str:
        """Return the SQL of texts, one after the other."""


def write_text(sql: Sql, text: str, value: str, *, is_free: bool) -> str:
    """Return the SQL of a value's text within the text of a row; ``text``: that of the form."""
    text = text.replace("{c}", value)
    if is_free:
        text = sql.concat(f"{sql.byte_length}({text})", "':'", text)
    return f"coalesce({text}, '{NULL}')"


@dataclass(frozen=True)
class TextForm:
    """SQL of a value's text in the database and in Spark; ``{c}`` is the column. Null stays null.

    ``is_free``: the text may contain any character.
    """

    source: str
    spark: str
    is_free: bool = False
    #: SQL of the database for the value of a text, ``{text}``; it finds rows by their key.
    literal: str = "{text}"


#: Returns the form for a column and the type of its stored column; None if their values have no common form.
FindForm = Callable[[SourceColumn, "DataType"], TextForm | None]

#: Days and microseconds since 1970 that stand for an infinite date and timestamp (docs/types.md).
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_DAY = 86_400_000_000
#: Spark's names of types.
INTEGERS = ("byte", "short", "integer", "long")
_FLOATS = ("float", "double")
_BITS = "java_method('java.lang.Double', 'doubleToLongBits', coalesce(cast({c} as double), 0D))"
#: Bits of a double: the same for equal values only, with NaN and -0.0, and independent of printed digits.
_SPARK_FLOAT = f"if({{c}} is null, null, lpad(hex(cast({_BITS} as bigint)), 16, '0'))"
#: 1.50 is 1.5.
_SPARK_NUMBER = "case when {c} rlike '^-?[0-9]+[.][0-9]*$' then regexp_replace({c}, '[.]?0+$', '') else {c} end"
SPARK_TEXT = "cast({c} as string)"
SPARK_BOOLEAN = "cast(cast({c} as int) as string)"
SPARK_BYTES = "lower(hex({c}))"
SPARK_DATE = "cast(unix_date({c}) as string)"
# The session's time zone is UTC.
SPARK_MICROS = "cast(unix_micros(cast({c} as timestamp)) as string)"
#: Digits after the point up to which Spark prints small decimals without an exponent.
_PLAIN_SCALE = 6
_MAX_DIGITS = 38


def find_postgresql_scalar(column: SourceColumn, stored: DataType) -> TextForm | None:
    """Return the form of a column of PostgreSQL that is not an array."""
    if column.kind in ("numeric", "money") and stored.typeName() == "decimal":
        scale = 2 if column.kind == "money" else column.scale
        cast = "({{c}}::numeric)::numeric(1000, {scale})::text"
        return _decimal_form(stored, scale, cast, "{c}::text" if column.kind == "numeric" else None)
    return _POSTGRESQL.get((column.kind, stored.typeName()))


def find_mysql_form(column: SourceColumn, stored: DataType) -> TextForm | None:
    """Return the form of a column of MySQL and MariaDB."""
    if column.kind == "decimal" and stored.typeName() == "decimal":
        return _decimal_form(
            stored, column.scale, "cast(cast({{c}} as decimal(65, {scale})) as char)", "cast({c} as char)"
        )
    return _MYSQL.get((column.kind, stored.typeName()))


def _decimal_form(stored: DataType, scale: int | None, cast: str, same: str | None) -> TextForm | None:
    """Return the form with the digits of the column that has more of them, so that a rounded value differs."""
    own = int(stored.scale)  # type: ignore[attr-defined]
    digits = max(own, scale or 0)
    if digits > _MAX_DIGITS - 2:
        return None
    source = same if same and digits == scale else cast.format(scale=digits)
    return TextForm(source, print_decimal(own, digits))


def print_decimal(own: int, digits: int) -> str:
    """Return the SQL of Spark for the text of a decimal of scale ``own`` with another number of digits after the point."""
    value = "{c}" if own == digits else f"cast({{c}} as decimal({_MAX_DIGITS}, {digits}))"
    text = f"cast({value} as string)"
    if digits <= _PLAIN_SCALE:
        return text
    # Spark prints 1E-7: one is added to small values, and replaced by zero in the text.
    small = f"cast(cast(abs({{c}}) as decimal({digits + 1}, {digits})) + 1 as string)"
    sign = "if({c} < 0, '-', '')"
    return f"case when abs({{c}}) < 0.000001 then concat({sign}, '0', substring({small}, 2)) else {text} end"


def _pair(kinds: Iterable[str], stored: Iterable[str], form: TextForm) -> dict[tuple[str, str], TextForm]:
    """Return the form for each kind of column and each type of a stored column."""
    return {(kind, lake): form for kind in kinds for lake in stored}


def _finite(value: str, first: int, last: int) -> str:
    return f"case {{c}} when 'infinity' then {last} when '-infinity' then {first} else {value} end::text"


_MICROS = "(extract(epoch from {c}) * 1000000)::bigint"
_MOMENT = TextForm(
    _finite(_MICROS, _FIRST_DAY * _DAY, _LAST_DAY * _DAY),
    SPARK_MICROS,
    literal="timestamp 'epoch' + {text}::bigint * interval '1 microsecond'",
)
_INSTANT = TextForm(
    _MOMENT.source,
    SPARK_MICROS,
    literal="timestamptz '1970-01-01 00:00:00+00' + {text}::bigint * interval '1 microsecond'",
)
#: Debezium's names of values that Java's decimals do not have.
_POSTGRESQL_NUMBER = (
    "case {c} when 'NaN' then 'NAN' when 'Infinity' then 'POSITIVE_INFINITY' when '-Infinity' then 'NEGATIVE_INFINITY' "
    "else trim_scale({c})::text end"
)
_POSTGRESQL_TEXTS = (
    *("text", "varchar", "citext", "uuid", "json", "jsonb", "xml", "enum", "macaddr", "macaddr8", "ltree", "tsvector"),
    *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
)
_POSTGRESQL: Mapping[tuple[str, str], TextForm] = {
    **_pair(("int2", "int4", "int8", "oid"), INTEGERS, TextForm("{c}::text", SPARK_TEXT)),
    **_pair(("bool", "bit"), ("boolean",), TextForm("{c}::int::text", SPARK_BOOLEAN)),
    **_pair(
        ("float4", "float8", "numeric"),
        _FLOATS,
        TextForm("upper(encode(float8send({c}::float8), 'hex'))", _SPARK_FLOAT),
    ),
    **_pair(_POSTGRESQL_TEXTS, ("string",), TextForm("{c}::text", "{c}", is_free=True)),
    # A cast prints more of an address than the output function.
    **_pair(
        ("inet", "cidr"),
        ("string",),
        TextForm("case when {c} is not null then concat({c}) end", "{c}", is_free=True),
    ),
    ("numeric", "string"): TextForm(_POSTGRESQL_NUMBER, _SPARK_NUMBER),
    ("date", "date"): TextForm(
        _finite("{c} - date '1970-01-01'", _FIRST_DAY, _LAST_DAY),
        SPARK_DATE,
        literal="date '1970-01-01' + {text}::int",
    ),
    ("timestamp", "timestamp_ntz"): _MOMENT,
    ("timestamp", "timestamp"): _MOMENT,
    ("timestamptz", "timestamp"): _INSTANT,
    ("time", "long"): TextForm(f"{_MICROS}::text", SPARK_TEXT),
    ("bytea", "binary"): TextForm("encode({c}, 'hex')", SPARK_BYTES, literal="decode({text}, 'hex')"),
    # Trailing spaces are not significant; the cast removes them.
    ("bpchar", "string"): TextForm("{c}::text", "rtrim({c})", is_free=True),
}
#: The form of a point in well-known binary contains the bits of a double, the lowest byte first.
_POINT = "hex(st_aswkb(point({c}, 0)))"
_MYSQL_FLOAT = f"concat({', '.join(f'substring({_POINT}, {place}, 2)' for place in range(25, 9, -2))})"
_MYSQL_MOMENT = TextForm(
    "cast(timestampdiff(microsecond, '1970-01-01', {c}) as char)",
    SPARK_MICROS,
    literal="timestampadd(microsecond, {text}, '1970-01-01')",
)
_MYSQL_INTEGER = TextForm("cast({c} as char)", SPARK_TEXT, literal="cast({text} as decimal(20))")
_MYSQL_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "uuid")
_MYSQL_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_MYSQL: Mapping[tuple[str, str], TextForm] = {
    **_pair(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), INTEGERS, _MYSQL_INTEGER),
    ("bigint unsigned", "long"): TextForm("cast(cast({c} as signed) as char)", SPARK_TEXT),
    ("bigint unsigned", "decimal"): _MYSQL_INTEGER,
    ("bit(1)", "boolean"): TextForm("cast({c} + 0 as char)", SPARK_BOOLEAN),
    **_pair(("float", "double", "decimal"), _FLOATS, TextForm(_MYSQL_FLOAT, _SPARK_FLOAT)),
    ("decimal", "string"): TextForm("cast({c} as char)", "{c}"),
    **_pair(_MYSQL_TEXTS, ("string",), TextForm("convert({c} using utf8mb4)", "{c}", is_free=True)),
    **_pair(_MYSQL_BYTES, ("binary",), TextForm("lower(hex({c}))", SPARK_BYTES, literal="unhex({text})")),
    ("date", "date"): TextForm("cast(to_days({c}) - 719528 as char)", SPARK_DATE, literal="from_days({text} + 719528)"),
    ("datetime", "timestamp_ntz"): _MYSQL_MOMENT,
    ("datetime", "timestamp"): _MYSQL_MOMENT,
    ("timestamp", "timestamp"): _MYSQL_MOMENT,
}
