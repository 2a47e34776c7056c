"""Renaming of columns in every row image and in the key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pydantic import Field, field_validator

from headrace.sdk import Changes, Transform, TransformConfig
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import fold_name
from headrace_transforms.column_sources import find_sources


class RenameConfig(TransformConfig):
    """New names for columns."""

    columns: dict[str, str] = Field(min_length=1)
    """Old name → new name."""

    @field_validator("columns")
    @classmethod
    def _free_names(cls, value: dict[str, str]) -> dict[str, str]:
        for new in value.values():
            if not new or new.lower().startswith(PREFIX):
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
        """Rename the columns of some rows. The old column stays for the others, so a mask must hide both."""
        result = super().apply_when(changes, condition)
        renamed = {self.config.columns[name]: name for name in changes.find_columns(self.config.columns).values()}
        copies = {new: find_sources(changes, [old]) for new, old in renamed.items() if new in result.row_columns}
        return replace(result, derived={**result.derived, **copies})
