"""The keys of removed rows: without them a change that is older than the removal would bring its row back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.checkpoint.row_store import RowStore
from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.spark.columns import quote_name
from headrace.spark.sessions import materialize

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.spark.storage import Folder

_KEY, _REMOVED, _HASH = PREFIX + "removed_key", PREFIX + "removed", PREFIX + "removed_hash"
#: Bytes of memory, as it lies there, that are still held whole beside a batch, about a third of a million keys; and rows of a
#: batch whose keys are.
_SMALL, _FEW = 8 << 20, 500_000


class DeletedKeys:
    """Those of one table, each with the position of its removal. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: seconds for which a key is remembered at least."""
        self._kept = RowStore(folder, retention)

    @contextmanager
    def drop_late(self, rows: DataFrame, key: Sequence[str]) -> Iterator[DataFrame]:
        """The rows, but those that are older than a removal of their key."""
        from pyspark.sql import functions as F

        if not self._kept.names:
            yield rows
            return
        removed = self._kept.read(rows.sparkSession, _schema(), self._kept.names)
        removed = removed.withColumnsRenamed({"key": _KEY, "position": _REMOVED})
        if self._kept.size() <= _SMALL:
            yield _without(rows, F.broadcast(removed), key)
            return
        # Millions of keys would fill the driver, and few of them are this batch's: it is they that are looked for first.
        with materialize(rows) as kept:
            mine = kept.select(F.xxhash64(key_text(kept, key)).alias(_HASH))
            few = kept.count() <= _FEW
            hashes = F.broadcast(mine) if few else mine
            removed = removed.join(hashes, F.xxhash64(_KEY) == F.col(_HASH), "left_semi")
            yield _without(kept, F.broadcast(removed) if few else removed, key)

    def remember(self, rows: DataFrame, key: Sequence[str], batch: int) -> None:
        """Adds the rows that are DELETED. The same batch may come again."""
        from pyspark.sql import functions as F

        removed = rows.where(F.col(DELETED)).select(key_text(rows, key).alias("key"), F.col(POSITION).alias("position"))
        self._kept.add(removed, batch, lambda all_: all_.groupBy("key").agg(F.max("position").alias("position")))


def _schema() -> StructType:
    from pyspark.sql import types as T

    return T.StructType().add("key", T.ArrayType(T.StringType())).add("position", T.StringType())


def _without(rows: DataFrame, removed: DataFrame, key: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    mine, theirs = key_text(rows, key), F.col(_KEY)
    # By a number: what Spark broadcasts for any other key begins with 64 MB, and stays until Java collects it. So the
    # texts are not compared with `==`, which would make them a part of the key.
    same = (F.xxhash64(mine) == F.xxhash64(theirs)) & (mine <= theirs) & (mine >= theirs)
    return rows.join(removed, same & (F.col(POSITION) < F.col(_REMOVED)), "left_anti")


def key_text(rows: DataFrame, key: Sequence[str]) -> Column:
    """A key as texts, which stay the same when a column's type is widened."""
    from pyspark.sql import functions as F

    return F.array(*[_cell(F.col(quote_name(name)), rows.schema[name].dataType) for name in key])


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
