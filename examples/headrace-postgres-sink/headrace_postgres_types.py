"""PostgreSQL's names and types: what a column of Spark's becomes, and how its values travel, as texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError
from headrace.sdk.changes import POSITION
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField

#: PostgreSQL cuts longer names, without a word.
LONGEST_NAME = 63
#: Spark's type, as its JSON calls it → PostgreSQL's; what is not here and not nested, no column can have.
TYPES = {
    "boolean": "boolean",
    "short": "smallint",
    "byte": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "void": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
#: For times within JSON: Spark's defaults cut them at milliseconds.
TIMES = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: No text of PostgreSQL's holds this character, and JSON writes it otherwise.
NUL = r"\x00", r"(?<!\\)(\\\\)*\\u0000"
HAS_NUL = "postgres_sink: PostgreSQL holds no text with a NUL, and has one to hold in the column"


def quote(name: str) -> str:
    """A name as PostgreSQL's SQL reads it literally."""
    return '"' + name.replace('"', '""') + '"'


def is_nested(kind: DataType) -> bool:
    """Whether a column of it is one of JSON."""
    return kind.typeName() in ("struct", "array", "map")


def sql_type(field: StructField) -> str:
    """The type of a column. DataError when there is none, or no such name."""
    if len(field.name.encode()) > LONGEST_NAME:
        what = f"the name {field.name!r} has more than PostgreSQL's {LONGEST_NAME} bytes"
        raise DataError(what, fix="give the column another by `rename`")
    if field.name == POSITION:
        return 'text COLLATE "C"'  # it sorts by its bytes
    kind = str(field.dataType.jsonValue())
    if kind.startswith("decimal"):
        return kind.replace("decimal", "numeric")
    if not is_nested(field.dataType) and kind not in TYPES:
        raise DataError(f"PostgreSQL has no type for {kind}, of column {field.name!r}", fix="cast it where it is made")
    return TYPES.get(kind, "jsonb")


def spark_type(kind: str, said: str | None) -> Any:
    """As Spark's JSON has it."""
    if kind.startswith("numeric("):
        return kind.replace("numeric", "decimal")
    if kind == "jsonb" and said:
        return json.loads(said)
    return next((spark for spark, sql in TYPES.items() if sql == kind), "string")


def to_text(field: StructField) -> Column:
    """A column's values as PostgreSQL reads its types."""
    from pyspark.sql import functions as F

    column, kind = F.col(quote_name(field.name)), field.dataType.typeName()
    if kind == "binary":
        return F.concat(F.lit("\\x"), F.hex(column))
    if kind == "timestamp":  # with the seconds that zones had once
        return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSSxxxxx")
    is_json = is_nested(field.dataType)
    text = F.to_json(column, TIMES) if is_json else column.cast("string")
    return F.when(text.rlike(NUL[is_json]), F.raise_error(F.lit(f"{HAS_NUL} {field.name!r}"))).otherwise(text)


def select_text(field: StructField) -> str:
    """A column as a text that Spark reads."""
    match field.dataType.typeName():
        case "binary":
            return f"encode({quote(field.name)}, 'hex')"
        case "timestamp":
            return f"({quote(field.name)} AT TIME ZONE 'UTC')::text || 'Z'"
    return f"{quote(field.name)}::text"


def from_text(column: Column, field: StructField) -> Column:
    """What such a text was."""
    from pyspark.sql import functions as F

    if is_nested(field.dataType):
        return F.from_json(column, field.dataType.json(), TIMES)
    return F.unhex(column) if field.dataType.typeName() == "binary" else column.cast(field.dataType)
