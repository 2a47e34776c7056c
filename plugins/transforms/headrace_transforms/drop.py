"""Removal of columns from every row image."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from headrace.sdk import Changes, DataError, Transform, TransformConfig
from headrace.sdk.transform import ColumnName
from headrace_transforms.row_images import keep_columns


class DropConfig(TransformConfig):
    """Columns to remove, as with ``exclude`` of Kafka Connect's ReplaceField."""

    columns: tuple[ColumnName, ...] = Field(min_length=1)
    """Names of columns. A key column cannot be removed."""


class Drop(Transform):
    """``drop: {columns: [internal_note]}``."""

    name = "drop"
    api_version = 1
    Config = DropConfig
    config: DropConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply(self, changes: Changes) -> Changes:
        found = changes.find_columns(self.config.columns)
        if not found:
            return changes
        if key := next((name for name in found if name in changes.key_columns), None):
            raise DataError(
                f"{key!r} is part of the key, and without it rows cannot be found",
                fix="keep it, or name other key columns: `tables: - {source: …, key: [id]}`",
            )
        return keep_columns(changes, lambda name: name not in found)
