"""Conversion of columns to other types."""

from __future__ import annotations

import re
from collections.abc import Collection

from pydantic import Field, field_validator

from headrace.sdk import Changes, Transform, TransformConfig
from headrace.sdk.columns import quote_name
from headrace_transforms.row_images import compute_columns

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

    columns: dict[str, str] = Field(min_length=1)
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
        texts, rejects = dict[str, str](), dict[str, str]()
        for column, name in changes.find_columns(self.config.columns).items():
            kind, quoted = self.config.columns[name], quote_name(column)
            texts[column] = f"TRY_CAST({quoted} AS {kind})"
            rejects[f"the column `{column}` does not fit its type {kind}"] = (
                f"{quoted} IS NOT NULL AND {texts[column]} IS NULL"
            )
        return compute_columns(changes, texts, rejects) if texts else changes
