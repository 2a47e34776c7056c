"""Keys of deleted rows, which are kept like tombstones in a compacted topic.

Without them, a change that is older than a delete and arrives after it would restore the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from headrace.checkpoint.row_store import RowStore
from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.spark.sessions import materialize
from headrace.upsert.keys import key_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder

_KEY, _POSITION, _HASH = PREFIX + "deleted_key", PREFIX + "deleted_position", PREFIX + "deleted_hash"
#: Size of the stored keys up to which all of them are broadcast: about 330,000 keys.
_BROADCAST_BYTES = 8 << 20
#: Number of rows of a batch up to which the hashes of their keys are broadcast.
_BROADCAST_ROWS = 500_000


class DeletedKeys:
    """Keys of one table's deleted rows, each with the position of its delete. Only one run at a time may use the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: minimum seconds for which a key is kept."""
        self._store = RowStore(folder, retention)

    def drop_late(self, rows: DataFrame, key: Sequence[str]) -> AbstractContextManager[DataFrame]:
        """Drop the rows that are older than a delete of their key."""
        from pyspark.sql import functions as F

        return self.drop_where(rows, key, lambda deleted: F.col(POSITION) < deleted)

    @contextmanager
    def drop_where(
        self, rows: DataFrame, key: Sequence[str], is_dropped: Callable[[Column], Column]
    ) -> Iterator[DataFrame]:
        """Drop the rows whose key was deleted at a position for which ``is_dropped`` is true."""
        from pyspark.sql import functions as F

        if not self._store.names:
            yield rows
            return
        deleted = self._store.read(rows.sparkSession, _schema(), self._store.names)
        deleted = deleted.withColumnsRenamed({"key": _KEY, "position": _POSITION})
        if self._store.size() <= _BROADCAST_BYTES:
            yield _drop_where(rows, F.broadcast(deleted), key, is_dropped)
            return
        # Millions of keys would exceed the driver's memory. Only the keys of this batch are needed, so they are selected first.
        with materialize(rows) as batch:
            hashes = batch.select(F.xxhash64(key_text(batch, key)).alias(_HASH))
            is_small = batch.count() <= _BROADCAST_ROWS
            deleted = deleted.join(
                F.broadcast(hashes) if is_small else hashes, F.xxhash64(_KEY) == F.col(_HASH), "left_semi"
            )
            yield _drop_where(batch, F.broadcast(deleted) if is_small else deleted, key, is_dropped)

    def remember(self, rows: DataFrame, key: Sequence[str], batch: int, newest_change: int | None = None) -> None:
        """Add the keys of the rows that are DELETED. A repeated batch changes nothing. ``newest_change`` as in ``expire``."""
        from pyspark.sql import functions as F

        deleted = rows.where(F.col(DELETED)).select(key_text(rows, key).alias("key"), F.col(POSITION).alias("position"))
        self._store.add(deleted, batch, _latest_per_key, newest_change)

    def expire(self, batch: int, newest_change: int | None) -> None:
        """Forget keys that were deleted longer ago than the retention (``RowStore.expire``)."""
        self._store.expire(batch, newest_change)


def _latest_per_key(deleted: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return deleted.groupBy("key").agg(F.max("position").alias("position"))


def _schema() -> StructType:
    from pyspark.sql import types as T

    return T.StructType().add("key", T.ArrayType(T.StringType())).add("position", T.StringType())


def _drop_where(
    rows: DataFrame, deleted: DataFrame, key: Sequence[str], is_dropped: Callable[[Column], Column]
) -> DataFrame:
    from pyspark.sql import functions as F

    row_key, deleted_key = key_text(rows, key), F.col(_KEY)
    # The join key is a number, because a broadcast with any other key type allocates at least 64 MB until Java collects it. The
    # strings are not compared with `==`, because Spark would add them to the join key.
    is_same = (F.xxhash64(row_key) == F.xxhash64(deleted_key)) & (row_key <= deleted_key) & (row_key >= deleted_key)
    return rows.join(deleted, is_same & is_dropped(F.col(_POSITION)), "left_anti")
