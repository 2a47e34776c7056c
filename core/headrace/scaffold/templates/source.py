"""Source of numbered records in an append-only file with one JSON object per line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.sdk import Config, ConfigError, Offset, RangedSource, Source, hookimpl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD = "line BIGINT, topic STRING, key STRING, value STRING, written TIMESTAMP"


class ExampleConfig(Config):
    """Location of the log, and the size of a batch."""

    path: str
    """A file that every executor can read."""

    limit: int | None = None
    """Maximum number of records per batch."""


class Example(RangedSource):
    """``example: {path: /logs/shop.jsonl}``. Lines are ``{"line": 1, "topic": …, "key": {…}, "value": {…}}``."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def check(self, spark: SparkSession | None = None) -> None:
        if not Path(self.config.path).is_file():
            raise ConfigError(
                "there is no such file", where=f"source example, path {self.config.path}", fix="name a log"
            )

    def initial(self) -> Offset:
        return {"line": 0}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        # A line without a line end is still being written.
        lines = Path(self.config.path).read_bytes().count(b"\n")
        return {"line": min(lines, start["line"] + limit) if limit else lines}

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        records = spark.read.text(self.config.path).selectExpr(f"from_json(value, '{RECORD}') record")
        return records.where(f"record.line > {start['line']} and record.line <= {end['line']}").selectExpr(
            *("record.key", "record.value", "cast(null as array<struct<key: string, value: binary>>) headers"),
            *("record.topic", "0 partition", "record.line offset", "record.written timestamp"),
        )


@hookimpl
def headrace_sources() -> dict[str, type[Source]]:
    """Return the sources by the name used under ``source:``."""
    return {"example": Example}
