"""Rows that a table's batches leave to later ones, in few folders of Parquet files that expire.

``<level>-<batch>-<milliseconds>-<types>/`` has the rows of a batch, or of one of its writes, whose number has that of the batch in
its lower bits; ``types`` identifies its columns and their types. Sixteen folders of one level are merged into one of the next, so
that few are read. A folder is removed when all of it is older than the retention.
"""

from __future__ import annotations

import hashlib
import time
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from headrace.schema.projection import project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder

#: Folders of one level that are merged into one of the next; and the last level, which has the rows of about a day.
_FOLDERS_PER_LEVEL, _LAST_LEVEL = 16, 3
#: Bits of the number of a write that are the number of its batch.
BATCH_BITS = 32
#: Difference between the clock and the monotonic clock at the start of the process, in seconds.
_CLOCK_OFFSET = time.time() - time.monotonic()


class RowStore:
    """Log of the rows that one table's batches added, compacted by levels. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: minimum seconds for which a row is kept."""
        self._folder, self._retention = folder, retention
        self._names: list[str] | None = None
        self._sizes: dict[str, int] = {}
        self._schemas: dict[str, StructType] = {}

    @property
    def names(self) -> list[str]:
        """Names of the folders at the first access, updated by this run. ConfigError for damaged files."""
        if self._names is None:
            names = self._folder.names()
            for name in names:
                self._folder.check_complete(name)
            self._names = names
        return self._names

    def size(self) -> int:
        """Return the bytes of all folders."""
        self._sizes = {name: self._sizes.get(name) or self._folder.size(name) for name in self.names}
        return sum(self._sizes.values())

    def of(self, batch: int) -> list[str]:
        """Return the folders that a batch has written completely."""
        return [name for name in self.names if int(name.split("-")[1]) == batch and self._folder.is_complete(name)]

    def read(self, session: SparkSession, schema: StructType, names: Sequence[str]) -> DataFrame:
        """Return the rows of folders in these columns and types, which may have been widened since."""
        from pyspark.sql import DataFrame

        types_id = _types_id(schema)
        self._schemas[types_id] = schema
        paths_by_types: dict[str, list[str]] = {}
        for name in names:
            types = name.split("-", 3)[-1]
            if types not in self._schemas and not self._folder.is_complete(name):
                types = types_id  # A crash left no file in it that has the schema.
            paths_by_types.setdefault(types, []).append(f"{self._folder.path}/{name}")
        frames = {types: self._read(session, types, paths) for types, paths in paths_by_types.items()}
        projections = [rows if types == types_id else project(rows, schema) for types, rows in frames.items()]
        return reduce(DataFrame.unionByName, projections)

    def _read(self, session: SparkSession, types: str, paths: Sequence[str]) -> DataFrame:
        """Return rows in their stored types.

        Spark reads a Parquet int only as int. Reading the schema from the files takes a job.
        """
        reader = session.read.schema(self._schemas[types]) if types in self._schemas else session.read
        rows = reader.parquet(*paths)
        self._schemas.setdefault(types, rows.schema)
        return rows

    def add(
        self,
        rows: DataFrame,
        batch: int,
        merge: Callable[[DataFrame], DataFrame],
        newest_change: int | None = None,
    ) -> None:
        """Add rows, and compact folders. ``merge``: merges the rows of several folders; ``newest_change`` as in ``expire``.

        The rows are as new as the change if the clock is behind it, so that they do not expire when the clock is corrected.
        """
        self._write(rows, 0, batch, max(int(time.time() * 1000), newest_change or 0))
        for level in range(_LAST_LEVEL):
            full = [name for name in self.names if int(name.split("-")[0]) == level]
            if len(full) < _FOLDERS_PER_LEVEL:
                break
            merged = merge(self.read(rows.sparkSession, rows.schema, full))
            self._write(merged, level + 1, batch, max(int(name.split("-")[2]) for name in full))
            self._delete(full)

    def expire(self, batch: int, newest_change: int | None) -> None:
        """Delete the folders of other batches that are older than the retention.

        ``newest_change``: commit time of the batch's newest change in milliseconds since 1970, if known. The retention must have
        passed both on the clock and in the commit times, so that a clock that jumps forward expires nothing.
        """
        now = (_CLOCK_OFFSET + time.monotonic()) * 1000
        oldest = min(now, now if newest_change is None else newest_change) - self._retention * 1000
        old = [name for name in self._names or () if int(name.split("-")[2]) < oldest]
        self._delete([name for name in old if int(name.split("-")[1]) % 2**BATCH_BITS != batch])

    def _write(self, rows: DataFrame, level: int, batch: int, newest: int) -> None:
        names, types = self.names, _types_id(rows.schema)
        # Two writes of a batch may have one time: a change in the future, or the end of both in one millisecond. A repeated batch
        # must not replace the rows of its first attempt, because it may find fewer: they are already removed from a table.
        time_of_write = next(n for n in count(newest) if f"{level}-{batch}-{n}-{types}" not in names)
        name = f"{level}-{batch}-{time_of_write}-{types}"
        rows.write.parquet(f"{self._folder.path}/{name}")
        self._folder.mark_complete(name)
        self._names = [*names, name]

    def _delete(self, names: list[str]) -> None:
        self._names = [name for name in self.names if name not in names]
        for name in names:
            self._folder.delete(name)


def _types_id(schema: StructType) -> str:
    """Return a name that identifies columns and their types."""
    return hashlib.sha256(schema.simpleString().encode()).hexdigest()[:32]
