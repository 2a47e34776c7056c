"""Dead letters in a table of a sink."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.sink import Batch, Sink, Table, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.dead_letters.replay_queue import ReplayItem, ReplayQueue, Select
    from headrace.dead_letters.rows import DeadLetterBatch

#: Key of a dead letter in the table, and its pipeline: several pipelines may share a table.
ID, PIPELINE = "id", "pipeline"


@dataclass(frozen=True)
class DeadLetterTable:
    """Dead letters of a pipeline in a table of a sink. ``is_maintained``: as in ``Batch``."""

    sink: Sink
    table: Table
    pipeline: str
    is_maintained: bool = False
    #: Tables of one batch save their dead letters at the same time, into this one table.
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    #: Position of the last write; empty before the first one.
    _last: list[int] = field(default_factory=list, compare=False, repr=False)

    @property
    def table_name(self) -> str:
        return self.table.name

    def save(self, dead_letters: DataFrame, batch: DeadLetterBatch) -> WriteResult:
        """Add the dead letters of one table's batch. Repeating it changes nothing."""
        from pyspark.sql import functions as F

        place = [F.lit(batch.origin), F.col("batch"), F.col("topic"), F.coalesce("file", "partition"), F.col("offset")]
        rows = dead_letters.withColumns({ID: F.concat_ws("/", *place), PIPELINE: F.lit(self.pipeline)})
        mark = Batch(batch.mark, batch.batch, "upsert", is_maintained=self.is_maintained, digest=batch.digest)
        return self._write(rows, mark, is_deleted=False)

    def read(self, session: SparkSession) -> DataFrame | None:
        """Return the pipeline's dead letters; None if there are none."""
        from pyspark.sql import functions as F

        rows = self.sink.read_or_none(session, self.table)
        if rows is None:
            return None
        columns = [c for c in rows.columns if not c.startswith(self.sink.hidden_prefixes)]
        own_rows = rows.where(F.col(PIPELINE) == self.pipeline).select(*columns)
        return None if own_rows.isEmpty() else own_rows

    def claim(self, session: SparkSession, select: Select, queue: ReplayQueue) -> None:
        """Move selected dead letters to the queue. A crash may leave them in both: then they are removed here first."""
        from pyspark.sql import functions as F

        for item in queue.items():
            claimed = session.read.load(queue.path(item))
            if self.has_stored(claimed):
                self.remove(claimed)
        stored = self.read(session)
        if stored is None:
            return
        selected = select(stored)
        for batch, target in selected.select("batch", "table").distinct().collect():
            rows = selected.where((F.col("batch") == batch) & (F.col("table") == target))
            self.remove(session.read.load(queue.path(queue.add(rows, batch, target))))

    def has_stored(self, dead_letters: DataFrame) -> bool:
        """Return whether claimed dead letters came from the table."""
        return ID in dead_letters.columns

    def restore(self, dead_letters: DataFrame, item: ReplayItem) -> None:
        """Put back claimed dead letters that were not replayed."""
        self._write(dead_letters, self._unique_batch(), is_deleted=False)

    def remove(self, dead_letters: DataFrame) -> None:
        """Remove dead letters from the table."""
        self._write(dead_letters, self._unique_batch(), is_deleted=True)

    def _unique_batch(self) -> Batch:
        pipeline = f"{self.pipeline}/dead_letters/{time.time_ns()}"
        return Batch(pipeline, 0, "upsert", is_maintained=self.is_maintained)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the table's lock during a write, or a maintenance step that excludes writes."""
        with self._lock:
            yield

    def _write(self, dead_letters: DataFrame, batch: Batch, *, is_deleted: bool) -> WriteResult:
        from pyspark.sql import functions as F

        with self.hold():
            position = F.lit(f"{self._next_position(dead_letters.sparkSession):020d}")
            rows = dead_letters.withColumns({DELETED: F.lit(is_deleted), POSITION: position})
            return self.sink.write(self.table, rows, batch)

    def _next_position(self, session: SparkSession) -> int:
        """Return a position above those of all earlier writes, so that the last write of a dead letter wins.

        The position is the time, or the last position plus one if the clock was set back.
        """
        last = self._last.pop() if self._last else self._read_last_position(session)
        self._last.append(max(time.time_ns(), last + 1))
        return self._last[0]

    def _read_last_position(self, session: SparkSession) -> int:
        """Return the highest stored position; 0 if the table does not exist."""
        stored = self.sink.read_or_none(session, self.table)
        found = None if stored is None else stored.agg({POSITION: "max"}).first()
        return int(found[0] or 0) if found else 0


def choose_dead_letter_table(
    name: str | None, sinks: Sequence[Sink], pipeline: str, *, is_maintained: bool
) -> DeadLetterTable | None:
    """Return a table in the first sink that replaces and removes rows; None if no table is configured.

    ConfigError without such a sink.
    """
    if name is None:
        return None
    for sink in sinks:
        if sink.capabilities.upsert and sink.capabilities.delete:
            return DeadLetterTable(sink, Table(name, (ID,)), pipeline, is_maintained)
    raise ConfigError(
        "no sink of this pipeline replaces and removes rows, so none can keep dead letters in a table",
        where="dead.letters.table",
        fix="leave it out to keep dead letters as files in the checkpoint; or add a sink that keeps tables",
    )
