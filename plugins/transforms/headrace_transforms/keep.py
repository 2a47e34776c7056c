"""Selection of the columns of a row."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from headrace.sdk import Changes, Transform, TransformConfig
from headrace.sdk.columns import fold_name
from headrace.sdk.conditions import apply_when
from headrace.sdk.transform import ColumnName
from headrace_transforms.row_images import keep_columns


class KeepConfig(TransformConfig):
    """Columns to keep, as with ``include`` of Kafka Connect's ReplaceField. Key columns are always kept."""

    columns: tuple[ColumnName, ...] = Field(min_length=1)
    """Names of columns."""


class Keep(Transform):
    """``keep: {columns: [id, name]}``."""

    name = "keep"
    api_version = 1
    Config = KeepConfig
    config: KeepConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        # It changes none of the columns that it names.
        return apply_when(changes, self.apply, condition, (), unknown=False)

    def apply(self, changes: Changes) -> Changes:
        found = changes.find_columns(self.config.columns)
        if not found:
            return changes
        kept = {fold_name(name) for name in (*found, *changes.key_columns)}
        return keep_columns(changes, lambda name: name in found or fold_name(name) in kept)
