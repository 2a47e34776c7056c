"""Rows on the screen, to see what a pipeline does before it has a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import Batch, Capabilities, ConfigError, Sink, SinkConfig, Table, WriteResult
from headrace.sdk.changes import DELETED, POSITION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ConsoleConfig(SinkConfig):
    """What is printed; the names are those of Spark's console sink."""

    #: Rows of each batch and table to print.
    numRows: int = 20  # noqa: N815 - Spark's own name
    #: Whether long values are cut.
    truncate: bool = True


class ConsoleSink(Sink):
    """``console: {}``."""

    name = "console"
    api_version = 1
    Config = ConsoleConfig
    config: ConsoleConfig
    # It keeps nothing, so a delete is a line like any other.
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True)

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        counts = rows.groupBy(DELETED).count().collect()
        upserted = sum(row["count"] for row in counts if not row[DELETED])
        count = sum(row["count"] for row in counts)
        print(f"{table.name}, batch {batch.id}: {count:,} rows", flush=True)  # noqa: T201 - what it is for
        rows.drop(POSITION).show(self.config.numRows, truncate=self.config.truncate)
        return WriteResult(upserted=upserted)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        raise ConfigError(
            "the console keeps nothing that could be shown", where="sink console", fix="show a table of another sink"
        )
