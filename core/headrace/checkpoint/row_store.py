"""Rows that a table's batches leave to later ones: folders of Parquet files, few of them, each kept for a time.

``<level>-<batch>-<milliseconds>-<types>/`` has what a batch added, and ``types`` stands for its columns and their types. Sixteen
of one level become one of the next, so that there are few to read; what is older than the retention goes as a whole.
"""

from __future__ import annotations

import hashlib
import time
from functools import reduce
from typing import TYPE_CHECKING

from headrace.schema.projection import project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder

#: Folders of one level that become one of the next, and the level that stays as it is: a day's.
_FOLDERS_PER_LEVEL, _LAST_LEVEL = 16, 3


class RowStore:
    """A log of the rows that one table's batches added, compacted by levels. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: seconds for which a row is kept at least."""
        self._folder, self._retention = folder, retention
        self._names: list[str] | None = None
        self._sizes: dict[str, int] = {}
        self._schemas: dict[str, StructType] = {}

    @property
    def names(self) -> list[str]:
        """The folders, as they were when this run first asked, and what it has made of them."""
        if self._names is None:
            self._names = self._folder.names()
        return self._names

    def size(self) -> int:
        """Bytes of them all."""
        self._sizes = {name: self._sizes.get(name) or self._folder.size(name) for name in self.names}
        return sum(self._sizes.values())

    def of(self, batch: int) -> list[str]:
        """The folders that a batch wrote to their end."""
        return [name for name in self.names if int(name.split("-")[1]) == batch and self._folder.is_complete(name)]

    def read(self, session: SparkSession, schema: StructType, names: Sequence[str]) -> DataFrame:
        """The rows of one folder or more, in these columns and types; columns may have been widened since they were written."""
        from pyspark.sql import DataFrame

        wanted = _types_id(schema)
        self._schemas[wanted] = schema
        alike: dict[str, list[str]] = {}
        for name in names:
            types = name.split("-", 3)[-1]
            if types not in self._schemas and not self._folder.is_complete(name):
                types = wanted  # A kill left no file in it, from which it could be seen what it holds.
            alike.setdefault(types, []).append(f"{self._folder.path}/{name}")
        frames = {types: self._read(session, types, paths) for types, paths in alike.items()}
        projections = [rows if types == wanted else project(rows, schema) for types, rows in frames.items()]
        return reduce(DataFrame.unionByName, projections)

    def _read(self, session: SparkSession, types: str, paths: Sequence[str]) -> DataFrame:
        """Rows in their own types: of Parquet Spark reads an int as an int alone. To ask the files for them takes a job."""
        reader = session.read.schema(self._schemas[types]) if types in self._schemas else session.read
        rows = reader.parquet(*paths)
        self._schemas.setdefault(types, rows.schema)
        return rows

    def add(self, rows: DataFrame, batch: int, merge: Callable[[DataFrame], DataFrame]) -> None:
        """Adds rows, and compacts folders. ``merge``: makes the rows of several folders those of one."""
        self._write(rows, 0, batch, int(time.time() * 1000))
        for level in range(_LAST_LEVEL):
            full = [name for name in self.names if int(name.split("-")[0]) == level]
            if len(full) < _FOLDERS_PER_LEVEL:
                break
            merged = merge(self.read(rows.sparkSession, rows.schema, full))
            self._write(merged, level + 1, batch, max(int(name.split("-")[2]) for name in full))
            self._expire(full)
        oldest = (time.time() - self._retention) * 1000
        self._expire([n for n in self.names if int(n.split("-")[2]) < oldest and int(n.split("-")[1]) != batch])

    def _write(self, rows: DataFrame, level: int, batch: int, newest: int) -> None:
        names, name = self.names, f"{level}-{batch}-{newest}-{_types_id(rows.schema)}"
        rows.write.parquet(f"{self._folder.path}/{name}")
        self._folder.mark_complete(name)
        self._names = [*names, name]

    def _expire(self, names: list[str]) -> None:
        self._names = [name for name in self.names if name not in names]
        for name in names:
            self._folder.delete(name)


def _types_id(schema: StructType) -> str:
    """A name for columns and their types that no others have."""
    return hashlib.sha256(schema.simpleString().encode()).hexdigest()[:32]
