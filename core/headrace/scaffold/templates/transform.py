"""Columns of text without the spaces around them."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from headrace.sdk import Changes, Config, Transform, hookimpl


class ExampleConfig(Config):
    """Columns of text."""

    columns: tuple[str, ...] = Field(min_length=1)
    """Which columns lose the spaces around their text."""


class Example(Transform):
    """``example: {columns: [name]}``, under ``transforms:``."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def reads(self) -> Collection[str]:
        return self.config.columns  # a name that no table has is an error before the stream starts

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        return changes.map_rows(values=dict.fromkeys(self.config.columns, F.trim))


@hookimpl
def headrace_transforms() -> dict[str, type[Transform]]:
    """Return transforms, by the name used under ``transforms:``."""
    return {"example": Example}
