"""Keys of deleted rows, kept as a compacted topic keeps tombstones: without them a change that is older than a delete, and comes
after it, would bring the row back.
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
#: Bytes of stored keys that are still broadcast whole beside a batch, about a third of a million keys.
_BROADCAST_BYTES = 8 << 20
#: Rows of a batch whose hashes are broadcast.
_BROADCAST_ROWS = 500_000


class DeletedKeys:
    """The keys of one table's deleted rows, each with the position of its delete. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: seconds for which a key is kept at least."""
        self._store = RowStore(folder, retention)

    def drop_late(self, rows: DataFrame, key: Sequence[str]) -> AbstractContextManager[DataFrame]:
        """The rows, but those that are older than a delete of their key."""
        from pyspark.sql import functions as F

        return self.drop_where(rows, key, lambda deleted: F.col(POSITION) < deleted)

    @contextmanager
    def drop_where(
        self, rows: DataFrame, key: Sequence[str], is_dropped: Callable[[Column], Column]
    ) -> Iterator[DataFrame]:
        """The rows, but those of whose key there is a delete for whose position ``is_dropped`` holds."""
        from pyspark.sql import functions as F

        if not self._store.names:
            yield rows
            return
        deleted = self._store.read(rows.sparkSession, _schema(), self._store.names)
        deleted = deleted.withColumnsRenamed({"key": _KEY, "position": _POSITION})
        if self._store.size() <= _BROADCAST_BYTES:
            yield _drop_where(rows, F.broadcast(deleted), key, is_dropped)
            return
        # Millions of keys would fill the driver, and few of them are this batch's: it is they that are looked for first.
        with materialize(rows) as batch:
            hashes = batch.select(F.xxhash64(key_text(batch, key)).alias(_HASH))
            is_small = batch.count() <= _BROADCAST_ROWS
            deleted = deleted.join(
                F.broadcast(hashes) if is_small else hashes, F.xxhash64(_KEY) == F.col(_HASH), "left_semi"
            )
            yield _drop_where(batch, F.broadcast(deleted) if is_small else deleted, key, is_dropped)

    def remember(self, rows: DataFrame, key: Sequence[str], batch: int) -> None:
        """Adds the keys of the rows that are DELETED. The same batch may come again."""
        from pyspark.sql import functions as F

        deleted = rows.where(F.col(DELETED)).select(key_text(rows, key).alias("key"), F.col(POSITION).alias("position"))
        self._store.add(deleted, batch, lambda several: several.groupBy("key").agg(F.max("position").alias("position")))


def _schema() -> StructType:
    from pyspark.sql import types as T

    return T.StructType().add("key", T.ArrayType(T.StringType())).add("position", T.StringType())


def _drop_where(
    rows: DataFrame, deleted: DataFrame, key: Sequence[str], is_dropped: Callable[[Column], Column]
) -> DataFrame:
    from pyspark.sql import functions as F

    row_key, deleted_key = key_text(rows, key), F.col(_KEY)
    # By a number: what Spark broadcasts for any other key begins with 64 MB, and stays until Java collects it. So the
    # texts are not compared with `==`, which would make them a part of the key.
    is_same = (F.xxhash64(row_key) == F.xxhash64(deleted_key)) & (row_key <= deleted_key) & (row_key >= deleted_key)
    return rows.join(deleted, is_same & is_dropped(F.col(_POSITION)), "left_anti")
