"""Transform that converts string columns to upper case."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from headrace.sdk import Changes, Config, Transform


class AcmeUpperConfig(Config):
    """Columns to change."""

    columns: tuple[str, ...] = Field(min_length=1)
    """String columns to convert to upper case."""


class AcmeUpper(Transform):
    """``acme_upper: {columns: [name]}``."""

    name = "acme_upper"
    api_version = 1
    Config = AcmeUpperConfig
    config: AcmeUpperConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        return changes.map_rows(values=dict.fromkeys(self.config.columns, F.upper))
