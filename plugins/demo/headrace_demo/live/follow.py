"""Observation of the running pipeline: latency of changes and row counts in each lake."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING

from headrace.errors import FatalError
from headrace.sdk.options import escape_controls
from headrace_demo.live.changes import ShopChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from rich.console import Console

    from headrace.pipeline import Pipeline
    from headrace.progress.model import BatchProgress

SINKS = ("iceberg", "hudi")
SCHEMA = "pagila_public"
#: Seconds until a missing change is an error.
_TIMEOUT = 600
#: Files that make a commit visible to readers.
_COMMITS = {"iceberg": "metadata/v*.metadata.json", "hudi": ".hoodie/timeline/*commit"}


class Follower:
    """Running pipeline on a session."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, console: Console) -> None:
        self.pipeline, self.spark, self._console = pipeline, spark, console
        self._batches: Queue[BatchProgress] = Queue()
        self._query = pipeline.start(spark, on_progress=self._batches.put)
        self.dead_letters = 0
        self._source_error: str | None = None

    def await_rows(self, expected: Mapping[str, int]) -> None:
        """Wait until each table has received the expected number of rows."""
        arrived = dict.fromkeys(expected, 0)
        deadline = time.monotonic() + _TIMEOUT
        while any(arrived[name] < rows for name, rows in expected.items()):
            for table in self._next_batch(deadline, "the snapshot's rows are not all in the tables").tables:
                if table.sink == SINKS[0]:
                    arrived[table.table.rpartition(".")[2]] += table.rows_in or 0

    def await_change(self, change: ShopChange, committed: float) -> dict[str, float]:
        """Wait until both sinks return the change; return sink → seconds from the database's commit to the table's commit."""
        deadline = time.monotonic() + _TIMEOUT
        while True:
            batch = self._next_batch(deadline, f"the {change.kind} of {change.row} is not in the tables")
            if any(table.table == f"{SCHEMA}.{change.table}" for table in batch.tables) and all(
                self._is_readable(change, sink) for sink in SINKS
            ):
                return {sink: self._commit_time(change.table, sink) - committed for sink in SINKS}

    def count_rows(self, names: list[str]) -> dict[str, dict[str, int]]:
        """Return sink → table → row count."""
        counts = {}
        for sink in SINKS:
            frames = [self.read_table(name, sink).selectExpr(f"'{name}' as name") for name in names]
            union = frames[0]
            for frame in frames[1:]:
                union = union.unionAll(frame)
            counts[sink] = {row["name"]: row["count"] for row in union.groupBy("name").count().collect()}
        return counts

    def read_row(self, change: ShopChange) -> Row | None:
        """Return the changed row of the Iceberg table."""
        return self.read_table(change.table).where(change.row).first()

    def read_table(self, name: str, sink: str = SINKS[0]) -> DataFrame:
        return self.pipeline.read(f"{SCHEMA}.{name}", sink=sink, spark=self.spark)

    def stop(self) -> None:
        self._query.stop()

    def _next_batch(self, deadline: float, message: str) -> BatchProgress:
        """Return the next batch. Raises the error that stopped the pipeline, and FatalError after the deadline."""
        while True:
            try:
                batch = self._batches.get(timeout=0.5)
            except Empty:
                if not self._query.is_active:
                    self._query.await_termination()
                self._print_source_error()
                if time.monotonic() > deadline:
                    what = f"{message} after {_TIMEOUT} s" + (f": {self._source_error}" if self._source_error else "")
                    raise FatalError(what, fix="see the lines above, and run the demo again") from None
            else:
                self.dead_letters += sum(table.dead_letters for table in batch.tables)
                self._print_errors(batch)
                return batch

    def _print_source_error(self) -> None:
        """Print an error of the source, which the pipeline retries, when it begins and when it ends."""
        error = self._query.status.error
        if error != self._source_error:
            self._source_error = error
            self._print(error or "the source responds again")

    def _print_errors(self, batch: BatchProgress) -> None:
        """Print the errors of tables, which the pipeline retries."""
        for table in batch.tables:
            if table.error:
                self._print(f"{table.table} → {table.sink}: {table.error}")

    def _print(self, text: str) -> None:
        self._console.print(escape_controls(text, keep_lines=True), style="yellow", markup=False)

    def _is_readable(self, change: ShopChange, sink: str) -> bool:
        rows = self.read_table(change.table, sink).where(change.row)
        if change.text is None:
            return rows.isEmpty()
        return not rows.where(f"cast({change.column} as string) = '{change.stored_text}'").isEmpty()

    def _commit_time(self, name: str, sink: str) -> float:
        folder = Path("lake", sink, SCHEMA, name)
        return max(file.stat().st_mtime for file in folder.glob(_COMMITS[sink]))
