"""Renaming of columns in every row image and in the key."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field, field_validator

from headrace.sdk import Changes, Transform, TransformConfig
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import fold_name
from headrace.sdk.transform import ColumnName
from headrace_transforms.column_sources import add_moved


class RenameConfig(TransformConfig):
    """New names for columns."""

    columns: dict[ColumnName, ColumnName] = Field(min_length=1)
    """Old name → new name."""

    @field_validator("columns")
    @classmethod
    def _free_names(cls, value: dict[str, str]) -> dict[str, str]:
        for new in value.values():
            if new.lower().startswith(PREFIX):
                raise ValueError(f"{new!r} is not a valid column name")
        folded = [fold_name(new) for new in value.values()]
        for new in value.values():
            if folded.count(fold_name(new)) > 1:
                raise ValueError(f"two columns would be named {new!r}")
        return value


class Rename(Transform):
    """``rename: {columns: {nationality: country}}``."""

    name = "rename"
    api_version = 1
    Config = RenameConfig
    config: RenameConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply(self, changes: Changes) -> Changes:
        return changes.map_rows(names=self.config.columns)

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        """Rename the columns of some rows. The old columns stay for the others, so a mask must hide both."""
        result = super().apply_when(changes, condition)
        found = changes.find_columns(self.config.columns)
        renamed = {self.config.columns[name]: old for old, name in found.items() if fold_name(old) == fold_name(name)}
        return add_moved(result, [(old, new) for new, old in renamed.items() if old in changes.row_columns])
