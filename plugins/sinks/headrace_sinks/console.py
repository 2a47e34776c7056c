"""Sink that prints rows, to inspect a pipeline before it has tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import Batch, Capabilities, NoSuchTableError, Sink, SinkConfig, Table, WriteResult
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.options import escape_controls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ConsoleConfig(SinkConfig):
    """Options of the sink ``console``, with the names of Spark's console sink."""

    numRows: int = 20  # noqa: N815 - the name of Spark's option
    """Rows to print for each batch and table."""

    truncate: bool = True
    """Truncate long values."""


class ConsoleSink(Sink):
    """``console: {}``."""

    name = "console"
    api_version = 1
    Config = ConsoleConfig
    config: ConsoleConfig
    # The sink stores nothing and prints a delete like any other row.
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, readable=False)

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        counts = rows.groupBy(DELETED).count().collect()
        upserted = sum(row["count"] for row in counts if batch.mode == "append" or not row[DELETED])
        count = sum(row["count"] for row in counts)
        # `show` would print the escape sequences of a record, which control the terminal.
        length = 20 if self.config.truncate else 0
        shown = rows.drop(POSITION)._jdf.showString(self.config.numRows, length, False)  # noqa: SLF001
        lines = [f"{table.name}, batch {batch.id}: {count:,} rows", *shown.split("\n")]
        print("\n".join(map(escape_controls, lines)), flush=True)  # noqa: T201 - the purpose of the sink
        return WriteResult(upserted=upserted)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        raise NoSuchTableError(
            "the console sink does not store rows", where="sink console", fix="show a table of another sink"
        )
