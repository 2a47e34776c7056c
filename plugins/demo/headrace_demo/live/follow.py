"""The running pipeline: when a change is readable in each lake, and what the lakes hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING

from headrace.errors import FatalError
from headrace_demo.live.changes import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from headrace.pipeline import Pipeline
    from headrace.progress.model import BatchProgress

SINKS = ("iceberg", "hudi")
SCHEMA = "pagila_public"
#: Seconds that the tables may take to follow.
_PATIENCE = 600
#: The files that make a commit visible: with each of them, and not before, readers see what it wrote.
_COMMITS = {"iceberg": "metadata/v*.metadata.json", "hudi": ".hoodie/timeline/*commit"}


class Follower:
    """A pipeline that is under way on a session."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession) -> None:
        self.pipeline, self.spark = pipeline, spark
        self._batches: Queue[BatchProgress] = Queue()
        self._query = pipeline.start(spark, on_progress=self._batches.put)
        self.dead_letters = 0

    def await_rows(self, expected: Mapping[str, int]) -> None:
        """Return when as many rows as these have been applied to each table."""
        arrived = dict.fromkeys(expected, 0)
        deadline = time.monotonic() + _PATIENCE
        while any(arrived[name] < rows for name, rows in expected.items()):
            for table in self._next_batch(deadline, "the snapshot's rows are not all in the tables").tables:
                if table.sink == SINKS[0]:
                    arrived[table.table.rpartition(".")[2]] += table.rows_in or 0

    def await_change(self, change: Change, committed: float) -> dict[str, float]:
        """Sink → seconds from the database's commit until readers of the table see it; each of them has been read."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            batch = self._next_batch(deadline, f"the {change.kind} of {change.row} is not in the tables")
            if any(table.table == f"{SCHEMA}.{change.table}" for table in batch.tables) and all(
                self._is_readable(change, sink) for sink in SINKS
            ):
                return {sink: self._commit_time(change.table, sink) - committed for sink in SINKS}

    def counts(self, names: list[str]) -> dict[str, dict[str, int]]:
        """Sink → table → rows, as readers of the tables find them."""
        counts = {}
        for sink in SINKS:
            frames = [self.table(name, sink).selectExpr(f"'{name}' as name") for name in names]
            whole = frames[0]
            for frame in frames[1:]:
                whole = whole.unionAll(frame)
            counts[sink] = {row["name"]: row["count"] for row in whole.groupBy("name").count().collect()}
        return counts

    def row(self, change: Change) -> Row | None:
        """The row that a change is about, as it is in the Iceberg table."""
        return self.table(change.table).where(change.row).first()

    def table(self, name: str, sink: str = SINKS[0]) -> DataFrame:
        return self.pipeline.read(f"{SCHEMA}.{name}", sink=sink, spark=self.spark)

    def stop(self) -> None:
        self._query.stop()

    def _next_batch(self, deadline: float, complaint: str) -> BatchProgress:
        """The next batch. Raises what stopped the pipeline, and FatalError when it comes too late."""
        while True:
            try:
                batch = self._batches.get(timeout=0.5)
            except Empty:
                if not self._query.is_active:
                    self._query.await_termination()
                if time.monotonic() > deadline:
                    raise FatalError(f"{complaint} after {_PATIENCE} s", fix="look at the lines above") from None
            else:
                self.dead_letters += sum(table.dead_letters for table in batch.tables)
                return batch

    def _is_readable(self, change: Change, sink: str) -> bool:
        rows = self.table(change.table, sink).where(change.row)
        if change.text is None:
            return rows.isEmpty()
        return not rows.where(f"cast({change.column} as string) = '{change.stored_text}'").isEmpty()

    def _commit_time(self, name: str, sink: str) -> float:
        folder = Path("lake", sink, SCHEMA, name)
        return max(file.stat().st_mtime for file in folder.glob(_COMMITS[sink]))
