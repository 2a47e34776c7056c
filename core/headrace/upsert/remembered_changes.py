"""Changes of a table with a history that no version shows: deletes, and changes that another change of their version replaced.

A late change may make each of them visible: it may end at a delete, or divide a version at a replaced change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.checkpoint.row_store import RowStore
from headrace.sdk.changes import POSITION
from headrace.upsert.versions import select_hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder


class RememberedChanges:
    """Log of one table's changes that no version shows. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: minimum seconds for which a change is kept."""
        self._store, self._retention = RowStore(folder, retention), retention

    def read(self, session: SparkSession, columns: StructType) -> DataFrame | None:
        """Return the changes in these columns; None if there are none."""
        return self._store.read(session, columns, self._store.names) if self._store.names else None

    def add(self, lines: DataFrame, key: Sequence[str], write: int) -> None:
        """Add the changes of arranged lines that no version shows. ``write``: number of the write (``BatchMarks.number``).

        This precedes the table: once it has the versions, a repeated batch would not find the changes that they replaced.
        """
        if not self._retention or self._store.of(write):
            return
        hidden = select_hidden(lines)
        if not hidden.isEmpty():
            self._store.add(hidden, write, lambda several: several.dropDuplicates([*key, POSITION]))

    def expire(self, batch: int, newest_change: int | None) -> None:
        """Forget changes that were added longer ago than the retention (``RowStore.expire``)."""
        self._store.expire(batch, newest_change)
