"""Transform that removes leading and trailing spaces from string columns."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from headrace.sdk import Changes, Transform, TransformConfig, hookimpl


class ExampleConfig(TransformConfig):
    """Columns to change."""

    columns: tuple[str, ...] = Field(min_length=1)
    """String columns from which leading and trailing spaces are removed."""


class Example(Transform):
    """``example: {columns: [name]}``, under ``transforms:``."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def reads(self) -> Collection[str]:
        return self.config.columns  # a column that no table has is an error before the stream starts

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        return changes.map_rows(values=dict.fromkeys(self.config.columns, F.trim))


@hookimpl
def headrace_transforms() -> dict[str, type[Transform]]:
    """Return the transforms by the name used under ``transforms:``."""
    return {"example": Example}
