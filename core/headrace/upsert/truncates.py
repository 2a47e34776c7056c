"""Where a table was last emptied (TRUNCATE): nothing older than that is in it, and nothing older comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, POSITION
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.spark.storage import Folder


class TruncateMarker:
    """The position of a table's last truncate, in a file."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        #: None when it never was.
        self.position = folder.read(name)

    def move_to(self, position: str) -> None:
        """Notes a truncate; an older one than that which is known changes nothing."""
        if self.position is None or position > self.position:
            self._folder.write(self._name, position)
            self.position = position

    def drop_older(self, rows: DataFrame) -> DataFrame:
        """The rows that came after it."""
        from pyspark.sql import functions as F

        return rows if self.position is None else rows.where(F.col(POSITION) > F.lit(self.position))

    def removed(self, stored: DataFrame, key: Sequence[str]) -> DataFrame:
        """What removes the stored rows that it removed."""
        from pyspark.sql import functions as F

        older = F.col(POSITION).isNull() | (F.col(POSITION) < F.lit(self.position))
        columns = [F.lit(True).alias(DELETED), F.lit(self.position).alias(POSITION)]
        return stored.where(older).select(*[stored[quote_name(name)].alias(name) for name in key], *columns)
