"""Upper case, as Old likes it."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from headrace.sdk import Changes, Config, Transform


class OldUpperConfig(Config):
    """What becomes upper case."""

    columns: tuple[str, ...] = Field(min_length=1)
    """Columns of text."""


class OldUpper(Transform):
    """``old_upper: {columns: [name]}``."""

    name = "old_upper"
    api_version = 1
    Config = OldUpperConfig
    config: OldUpperConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        return changes.map_rows(values=dict.fromkeys(self.config.columns, F.upper))
