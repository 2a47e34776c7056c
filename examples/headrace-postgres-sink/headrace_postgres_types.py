"""Names and types of PostgreSQL: the type for a Spark column, and the string form of its values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError
from headrace.sdk.changes import POSITION
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField

#: PostgreSQL silently truncates longer names.
LONGEST_NAME = 63
#: Spark's type by its JSON name → PostgreSQL's type. Other types are not supported, except nested ones.
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
#: For timestamps in JSON: Spark's defaults truncate them to milliseconds.
TIMES = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: PostgreSQL's strings cannot contain this character; the second pattern finds it in JSON.
NUL = r"\x00", r"(?<!\\)(\\\\)*\\u0000"
HAS_NUL = "postgres_sink: PostgreSQL cannot store the NUL character in a value of the column"


def quote(name: str) -> str:
    """Return a name quoted for PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def is_nested(kind: DataType) -> bool:
    """Return whether a column of this type is stored as JSON."""
    return kind.typeName() in ("struct", "array", "map")


def sql_type(field: StructField) -> str:
    """Return the PostgreSQL type of a column. Raise DataError if there is none, or if the name is too long."""
    if len(field.name.encode()) > LONGEST_NAME:
        what = f"the name {field.name!r} has more than PostgreSQL's {LONGEST_NAME} bytes"
        raise DataError(what, fix="change the column's name with `rename`")
    if field.name == POSITION:
        return 'text COLLATE "C"'  # sorts by bytes
    kind = str(field.dataType.jsonValue())
    if kind.startswith("decimal"):
        return kind.replace("decimal", "numeric")
    if not is_nested(field.dataType) and kind not in TYPES:
        raise DataError(f"PostgreSQL has no type for {kind}, of column {field.name!r}", fix="cast it at the source")
    return TYPES.get(kind, "jsonb")


def spark_type(kind: str, json_type: str | None) -> Any:
    """Return the type in the form of Spark's JSON."""
    if kind.startswith("numeric("):
        return kind.replace("numeric", "decimal")
    if kind == "jsonb" and json_type:
        return json.loads(json_type)
    return next((spark for spark, sql in TYPES.items() if sql == kind), "string")


def to_text(field: StructField) -> Column:
    """Return the values of a column as strings that PostgreSQL can cast to its types."""
    from pyspark.sql import functions as F

    column, kind = F.col(quote_name(field.name)), field.dataType.typeName()
    if kind == "binary":
        return F.concat(F.lit("\\x"), F.hex(column))
    if kind == "timestamp":  # historical time zones have offsets with seconds
        return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSSxxxxx")
    is_json = is_nested(field.dataType)
    text = F.to_json(column, TIMES) if is_json else column.cast("string")
    return F.when(text.rlike(NUL[is_json]), F.raise_error(F.lit(f"{HAS_NUL} {field.name!r}"))).otherwise(text)


def select_text(field: StructField) -> str:
    """Return a SQL expression for a column as a string that Spark can read."""
    match field.dataType.typeName():
        case "binary":
            return f"encode({quote(field.name)}, 'hex')"
        case "timestamp":
            return f"({quote(field.name)} AT TIME ZONE 'UTC')::text || 'Z'"
    return f"{quote(field.name)}::text"


def from_text(column: Column, field: StructField) -> Column:
    """Return the original value of such a string."""
    from pyspark.sql import functions as F

    if is_nested(field.dataType):
        return F.from_json(column, field.dataType.json(), TIMES)
    return F.unhex(column) if field.dataType.typeName() == "binary" else column.cast(field.dataType)
