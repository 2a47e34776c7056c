"""Rows as cells of CSV files. Structs, arrays and maps are JSON, binary values are Base64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name
from headrace_sinks.file_formats import LOCAL_MICROSECONDS, MICROSECONDS
from headrace_sinks.map_keys import write_text_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

#: Options of Spark's writer and reader, unless the pipeline file sets others. Spark's own defaults change values: the writer trims
#: texts and truncates timestamps, and a backslash at the end of a text hides the quote after it.
CSV_OPTIONS: Mapping[str, str] = {
    "header": "true",
    "escape": '"',
    "lineSep": "\n",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "timestampFormat": MICROSECONDS,
    **LOCAL_MICROSECONDS,
}
#: Further options of the reader. Texts may contain line breaks. A null is an empty cell, and an empty text is `""`: Spark's reader
#: distinguishes them only if null has another text.
CSV_READ_OPTIONS: Mapping[str, str] = {"multiLine": "true", "nullValue": "\x01null\x01"}
_JSON_OPTIONS = {"timestampFormat": MICROSECONDS, **LOCAL_MICROSECONDS, "ignoreNullFields": "false"}


def encode_cells(rows: DataFrame) -> DataFrame:
    """Return the rows with plain values only."""
    from pyspark.sql import functions as F

    encoded: dict[str, Column] = {}
    for field in rows.schema:
        column = F.col(quote_name(field.name))
        if field.dataType.typeName() == "binary":
            encoded[field.name] = F.base64(column)
        elif _is_nested(field.dataType):
            encoded[field.name] = F.to_json(write_text_keys(column, field.dataType), _JSON_OPTIONS)
    return rows.withColumns(encoded) if encoded else rows


def cell_schema(schema: StructType) -> StructType:
    """Return the schema of the cells of rows."""
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType(
        [StructField(field.name, StringType() if _is_encoded(field.dataType) else field.dataType) for field in schema]
    )


def decode_cells(cells: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows of cells."""
    from pyspark.sql import functions as F

    decoded: dict[str, Column] = {}
    for field in schema:
        column = F.col(quote_name(field.name))
        if field.dataType.typeName() == "binary":
            decoded[field.name] = F.unbase64(column)
        elif _is_nested(field.dataType):
            decoded[field.name] = F.from_json(column, field.dataType, _JSON_OPTIONS)  # type: ignore[arg-type]
    return cells.withColumns(decoded) if decoded else cells


def _is_encoded(kind: DataType) -> bool:
    return kind.typeName() == "binary" or _is_nested(kind)


def _is_nested(kind: DataType) -> bool:
    return kind.typeName() in ("struct", "array", "map")
