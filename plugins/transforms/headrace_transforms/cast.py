"""Conversion of columns to other types."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from headrace.sdk import Changes, DataError, Transform, TransformConfig
from headrace.sdk.columns import quote_name
from headrace.sdk.rows import row_types
from headrace.sdk.sql import limit_decimal_text
from headrace.sdk.transform import ColumnName
from headrace_transforms.row_images import compute_columns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: Names of Kafka Connect's Cast → Spark's.
_KAFKA_CONNECT = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
}
_TYPE = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|(decimal)\( ?\d+ ?(, ?\d+ ?)?\)|string|binary|date|timestamp|timestamp_ntz"
)


class CastConfig(TransformConfig):
    """New types of columns."""

    columns: dict[ColumnName, str] = Field(min_length=1)
    """Column → type: a simple type of Spark SQL (``decimal(10,2)``), or of Kafka Connect's Cast (``int32``)."""

    @field_validator("columns")
    @classmethod
    def _spark_types(cls, value: dict[str, str]) -> dict[str, str]:
        types = {name: _KAFKA_CONNECT.get(kind.lower(), kind.lower()) for name, kind in value.items()}
        for kind in types.values():
            if not _TYPE.fullmatch(kind):
                raise ValueError(f"{kind!r} is not a type of a column: write `int`, `decimal(10,2)` or `timestamp`")
        return types


class Cast(Transform):
    """``cast: {columns: {price: "decimal(10,2)"}}``. A value that does not fit makes the record a dead letter."""

    name = "cast"
    api_version = 1
    Config = CastConfig
    config: CastConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply(self, changes: Changes) -> Changes:
        texts, rejects, types = dict[str, str](), dict[str, str](), row_types(changes)
        for column, name in changes.find_columns(self.config.columns).items():
            kind, quoted = self.config.columns[name], quote_name(column)
            if not _can_cast(changes, types[column], kind):
                is_days = kind == "date" and types[column].typeName() in ("integer", "long", "short")
                raise DataError(
                    f"the column {column!r} is {types[column].simpleString()}, which Spark does not cast to {kind}",
                    fix=f"convert days since 1970 with `compute: {{columns: {{{column}: date_from_unix_date({column})}}}}`"
                    if is_days
                    else "convert it with `timestamp` or `compute`",
                )
            is_number_of_text = kind.startswith("decimal") and types[column].typeName() == "string"
            texts[column] = f"TRY_CAST({limit_decimal_text(quoted) if is_number_of_text else quoted} AS {kind})"
            rejects[f"the column `{column}` does not fit its type {kind}"] = (
                f"{quoted} IS NOT NULL AND {texts[column]} IS NULL"
            )
        return compute_columns(changes, texts, rejects) if texts else changes


def _can_cast(changes: Changes, have: DataType, want: str) -> bool:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    nothing = changes.frame.sparkSession.range(0).select(F.lit(None).cast(have).alias("v"))
    try:
        nothing.selectExpr(f"TRY_CAST(v AS {want})")
    except AnalysisException:
        return False
    return True
