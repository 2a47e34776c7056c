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

#: Names a letter in the table; several pipelines may share one.
ID, PIPELINE = "id", "pipeline"


@dataclass(frozen=True)
class LettersTable:
    """The dead letters of a pipeline in a table of a sink's."""

    sink: Sink
    table: Table
    pipeline: str
    #: Tables that have dead letters in one batch write them side by side, and this is one table.
    _one: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def keep(self, letters: DataFrame, checkpoint: str, batch: int, table: str) -> WriteResult:
        """Adds those of a batch and a table; again, it changes nothing. ``checkpoint``: its id."""
        from pyspark.sql import functions as F

        place = [F.lit(checkpoint), F.col("batch"), F.col("topic"), F.coalesce("file", "partition"), F.col("offset")]
        named = letters.withColumns({ID: F.concat_ws("/", *place), PIPELINE: F.lit(self.pipeline)})
        return self._written(named, f"{checkpoint}/letters/{table}", batch, deleted=False)

    def put_back(self, letters: DataFrame) -> None:
        """Adds letters that were removed."""
        self._written(letters, f"{self.pipeline}/letters/{time.time_ns()}", 0, deleted=False)

    def remove(self, letters: DataFrame) -> None:
        """Removes letters that the table has."""
        self._written(letters, f"{self.pipeline}/letters/{time.time_ns()}", 0, deleted=True)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The pipeline's; None when there is no table."""
        from pyspark.sql import functions as F

        try:
            found = self.sink.read_back(spark, self.table)
        except ConfigError:
            return None
        columns = [c for c in found.columns if not c.startswith(self.sink.hidden_prefixes)]
        return found.where(F.col(PIPELINE) == self.pipeline).select(*columns)

    def _written(self, letters: DataFrame, mark: str, batch: int, *, deleted: bool) -> WriteResult:
        from pyspark.sql import functions as F

        # What is said last of a letter holds.
        rows = letters.withColumns({DELETED: F.lit(deleted), POSITION: F.lit(f"{time.time_ns():020d}")})
        with self._one:
            return self.sink.write(self.table, rows, Batch(mark, batch, "upsert"))


def letters_table(name: str | None, sinks: Sequence[Sink], pipeline: str) -> LettersTable | None:
    """In the first sink that can remove what was replayed. ConfigError when there is none."""
    if name is None:
        return None
    for sink in sinks:
        if sink.capabilities.upsert and sink.capabilities.delete:
            return LettersTable(sink, Table(name, (ID,)), pipeline)
    raise ConfigError(
        "no sink of this pipeline replaces and removes rows, so none can keep dead letters as a table",
        where="dead.letters.table",
        fix="leave it out, and they are kept as files in the checkpoint; or add a sink that keeps tables",
    )
