"""Dead letters in a table of their own, which a sink keeps beside the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.sink import Batch, Sink, Table, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Names a dead letter in the table; several pipelines may share one.
ID, PIPELINE = "id", "pipeline"


@dataclass(frozen=True)
class DeadLetterTable:
    """The dead letters of a pipeline in a table of a sink's."""

    sink: Sink
    table: Table
    pipeline: str
    #: Tables that have dead letters in one batch write them side by side, and this is one table.
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def store(self, dead_letters: DataFrame, checkpoint: str, mark: str, batch: int) -> WriteResult:
        """Adds those of a batch and a table; again, it changes nothing.

        ``checkpoint``: the id that leads theirs; ``mark``: by which the sink knows the write again.
        """
        from pyspark.sql import functions as F

        place = [F.lit(checkpoint), F.col("batch"), F.col("topic"), F.coalesce("file", "partition"), F.col("offset")]
        rows = dead_letters.withColumns({ID: F.concat_ws("/", *place), PIPELINE: F.lit(self.pipeline)})
        return self._write(rows, mark, batch, is_deleted=False)

    def restore(self, dead_letters: DataFrame) -> None:
        """Adds dead letters that were removed."""
        self._write(dead_letters, self._unique_mark(), 0, is_deleted=False)

    def remove(self, dead_letters: DataFrame) -> None:
        """Removes dead letters that the table has."""
        self._write(dead_letters, self._unique_mark(), 0, is_deleted=True)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The pipeline's dead letters; None when there is no table."""
        from pyspark.sql import functions as F

        try:
            rows = self.sink.read_back(spark, self.table)
        except ConfigError:
            return None
        columns = [c for c in rows.columns if not c.startswith(self.sink.hidden_prefixes)]
        return rows.where(F.col(PIPELINE) == self.pipeline).select(*columns)

    def _unique_mark(self) -> str:
        return f"{self.pipeline}/letters/{time.time_ns()}"

    def _write(self, dead_letters: DataFrame, mark: str, batch: int, *, is_deleted: bool) -> WriteResult:
        from pyspark.sql import functions as F

        # What is said last of a dead letter holds.
        rows = dead_letters.withColumns({DELETED: F.lit(is_deleted), POSITION: F.lit(f"{time.time_ns():020d}")})
        with self._lock:
            return self.sink.write(self.table, rows, Batch(mark, batch, "upsert"))


def choose_dead_letter_table(name: str | None, sinks: Sequence[Sink], pipeline: str) -> DeadLetterTable | None:
    """A table in the first sink that can remove what was replayed; None without a name. ConfigError when no sink can."""
    if name is None:
        return None
    for sink in sinks:
        if sink.capabilities.upsert and sink.capabilities.delete:
            return DeadLetterTable(sink, Table(name, (ID,)), pipeline)
    raise ConfigError(
        "no sink of this pipeline replaces and removes rows, so none can keep dead letters as a table",
        where="dead.letters.table",
        fix="leave it out, and they are kept as files in the checkpoint; or add a sink that keeps tables",
    )
