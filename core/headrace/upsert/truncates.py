"""Truncates: a table has no row older than its last TRUNCATE, and no late change restores one.

A resync truncates at the start of a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.positions import is_tombstone
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.spark.storage import Folder


class TruncateMarker:
    """Position of a table's last truncate, in a file of the checkpoint."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        #: None if the table was never truncated.
        self.position = folder.load(name, _parse)

    def advance(self, position: str) -> None:
        """Move the marker to a truncate, unless it is older than the known one."""
        if self.position is None or position > self.position:
            self._folder.write(self._name, position)
            self.position = position

    def drop_older(self, rows: DataFrame) -> DataFrame:
        """Drop the rows before the last truncate. Tombstones stay: their positions do not compare with it."""
        from pyspark.sql import functions as F

        position = F.col(POSITION)
        return rows if self.position is None else rows.where((position > F.lit(self.position)) | is_tombstone(position))

    def deletes_for(self, stored: DataFrame, key: Sequence[str]) -> DataFrame:
        """Return deletes of the stored rows that are older than the last truncate, at its position."""
        from pyspark.sql import functions as F

        older = F.col(POSITION).isNull() | (F.col(POSITION) < F.lit(self.position))
        columns = [F.lit(True).alias(DELETED), F.lit(self.position).alias(POSITION)]
        return stored.where(older).select(*[stored[quote_name(name)].alias(name) for name in key], *columns)


def _parse(text: str) -> str:
    if not text:
        raise ValueError("no position")
    return text
