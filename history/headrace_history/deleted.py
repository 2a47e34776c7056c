"""The keys of removed rows: without them a change that is older than the removal would bring its row back.

``<level>-<batch>-<milliseconds>/`` is a folder of Parquet files with the keys that a batch removed. Sixteen
of one level become one of the next, so that there are few to read; what is older than the retention goes as a whole.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.contracts.changes import DELETED, POSITION, PREFIX, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from headrace.engine.storage import Folder

_SCHEMA = "key array<string>, position string"
_KEY, _REMOVED = PREFIX + "removed_key", PREFIX + "removed"
#: Folders of one level that become one of the next, and the level that stays as it is: a day's.
_WIDTH, _LAST = 16, 3


class DeletedKeys:
    """Those of one table, each with the position of its removal. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: seconds for which a key is remembered at least."""
        self._folder, self._retention = folder, retention
        self._names: list[str] | None = None

    def without_late(self, rows: DataFrame, key: Sequence[str]) -> DataFrame:
        """The rows, but those that are older than a removal of their key."""
        from pyspark.sql import functions as F

        if not self.names:
            return rows
        removed = self._read(rows, self.names).withColumnsRenamed({"key": _KEY, "position": _REMOVED})
        mine, theirs = _text(rows, key), F.col(_KEY)
        # By a number: what Spark broadcasts for any other key begins with 64 MB, and stays until Java collects it. So the
        # texts are not compared with `==`, which would make them a part of the key.
        same = (F.xxhash64(mine) == F.xxhash64(theirs)) & (mine <= theirs) & (mine >= theirs)
        return rows.join(F.broadcast(removed), same & (F.col(POSITION) < F.col(_REMOVED)), "left_anti")

    def remember(self, rows: DataFrame, key: Sequence[str], batch: int) -> None:
        """Adds the rows that are DELETED. The same batch may come again."""
        from pyspark.sql import functions as F

        removed = rows.where(F.col(DELETED)).select(_text(rows, key).alias("key"), F.col(POSITION).alias("position"))
        self._write(removed, 0, batch, int(time.time() * 1000))
        for level in range(_LAST):
            full = [name for name in self.names if int(name.split("-")[0]) == level]
            if len(full) < _WIDTH:
                break
            both = self._read(rows, full).groupBy("key").agg(F.max("position").alias("position"))
            self._write(both, level + 1, batch, max(int(name.split("-")[2]) for name in full))
            self._forget(full)
        oldest = (time.time() - self._retention) * 1000
        self._forget([name for name in self.names if int(name.split("-")[2]) < oldest])

    @property
    def names(self) -> list[str]:
        """The folders that are remembered, as they were when this run first asked, and what it has made of them."""
        if self._names is None:
            self._names = self._folder.names()
        return self._names

    def _read(self, rows: DataFrame, names: list[str]) -> DataFrame:
        return rows.sparkSession.read.schema(_SCHEMA).parquet(*[f"{self._folder.path}/{name}" for name in names])

    def _write(self, removed: DataFrame, level: int, batch: int, newest: int) -> None:
        name = f"{level}-{batch}-{newest}"
        removed.write.parquet(f"{self._folder.path}/{name}")
        self._names = [*self.names, name]

    def _forget(self, names: list[str]) -> None:
        self._names = [name for name in self.names if name not in names]
        for name in names:
            self._folder.delete(name)


def _text(rows: DataFrame, key: Sequence[str]) -> Column:
    """A key as texts, which stay the same when a column's type is widened."""
    from pyspark.sql import functions as F

    return F.array(*[_cell(F.col(quoted(name)), rows.schema[name].dataType) for name in key])


def _cell(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, DecimalType, TimestampType

    if isinstance(kind, BinaryType):
        return F.hex(column)
    if isinstance(kind, TimestampType):  # not as it reads in a time zone, where an hour comes twice
        return F.unix_micros(column).cast("string")
    text = column.cast("string")
    if isinstance(kind, DecimalType):  # 1.10 in a column with more places
        return F.when(text.contains("."), F.regexp_replace(text, r"\.?0+$", "")).otherwise(text)
    return text
