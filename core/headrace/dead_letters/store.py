"""Stores of dead letters, and the choice between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.dead_letters.table_store import DeadLetterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.dead_letters.replay_queue import ReplayItem, ReplayQueue, Select
    from headrace.dead_letters.rows import DeadLetterBatch
    from headrace.sdk.sink import Sink, WriteResult
    from headrace.spark.storage import Folder

#: Name of the dead letters for ``headrace show`` and ``Pipeline.read``.
TABLE = "dead_letters"


class DeadLetterStore(Protocol):
    """Store of a pipeline's dead letters."""

    @property
    def sink(self) -> Sink | None:
        """The sink that writes the dead letters; None for files."""

    @property
    def table_name(self) -> str | None:
        """Name of the table with the dead letters; None for files."""

    def save(self, dead_letters: DataFrame, batch: DeadLetterBatch) -> WriteResult:
        """Save the dead letters of one table's batch. Repeating it changes nothing."""

    def read(self, session: SparkSession) -> DataFrame | None:
        """Return the dead letters; None if there are none."""

    def claim(self, session: SparkSession, select: Select, queue: ReplayQueue) -> None:
        """Move selected dead letters to the replay queue."""

    def has_stored(self, dead_letters: DataFrame) -> bool:
        """Return whether claimed dead letters came from this store."""

    def restore(self, dead_letters: DataFrame, item: ReplayItem) -> None:
        """Put back claimed dead letters that were not replayed."""


def open_stores(table: DeadLetterTable | None, folder: Folder) -> tuple[DeadLetterStore, ...]:
    """Return the stores of a pipeline.

    New dead letters go to the first store. Files may remain from the time before a table was configured.
    """
    files = DeadLetterFiles(folder)
    return (table, files) if table else (files,)


def read_all(
    stores: Sequence[DeadLetterStore], session: SparkSession, queue: ReplayQueue | None = None
) -> DataFrame | None:
    """Return the dead letters of all stores, and those in the ``queue`` of an interrupted replay; None if there are none."""
    sources: list[DeadLetterStore | ReplayQueue] = [*reversed(stores), *([queue] if queue else [])]
    frames = [frame for source in sources if (frame := source.read(session)) is not None]
    if not frames:
        return None
    all_frames = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
    return all_frames.orderBy("batch", "topic", "partition", "offset")
