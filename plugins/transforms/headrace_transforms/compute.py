"""Columns that are computed from other columns of the row."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field, field_validator

from headrace.sdk import Changes, Transform, TransformConfig
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import fold_name
from headrace.sdk.conditions import apply_when, has_columns
from headrace.sdk.sql import SqlExpression, read_columns
from headrace.sdk.transform import ColumnName
from headrace_transforms.row_images import compute_columns


class ComputeConfig(TransformConfig):
    """SQL expressions over the row."""

    columns: dict[ColumnName, SqlExpression] = Field(min_length=1)
    """Column → SQL expression. Each sees the row as it was before the transform. A new column comes last."""

    @field_validator("columns")
    @classmethod
    def _free_names(cls, value: dict[str, str]) -> dict[str, str]:
        folded = [fold_name(name) for name in value]
        for name in value:
            if name.lower().startswith(PREFIX):
                raise ValueError(f"{name!r} is not a valid column name")
            if folded.count(fold_name(name)) > 1:
                raise ValueError(f"two columns would be named {name!r}")
        return value


class Compute(Transform):
    """``compute: {columns: {full_name: "concat(first, ' ', last)"}}``, in tables that have the columns of the expression."""

    name = "compute"
    api_version = 1
    Config = ComputeConfig
    config: ComputeConfig

    def reads(self) -> Collection[str]:
        return dict.fromkeys(name for text in self.config.columns.values() for name in read_columns(text))

    def reads_in(self, table: str | None) -> Collection[str]:
        return dict.fromkeys([*self.reads(), *self.config.columns])

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        return apply_when(changes, self.apply, condition, self.config.columns, unknown=False)

    def apply(self, changes: Changes) -> Changes:
        texts = {name: text for name, text in self.config.columns.items() if has_columns(changes, text)}
        return compute_columns(changes, texts) if texts else changes
