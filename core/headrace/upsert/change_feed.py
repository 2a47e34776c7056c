"""Change feed of a table: the changes that it applied, with the rows before and after them.

The names of the types are those of other change data feeds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.schema.projection import align, merge_columns
from headrace.sdk.changes import COMMITTED, DELETED, POSITION, PREFIX
from headrace.spark.columns import name_fold, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CHANGE_TYPE, CHANGE_POSITION, CHANGE_TIME, CHANGE_SEQUENCE = (
    "change_type",
    "change_position",
    "change_time",
    "change_sequence",
)
#: Columns that a change feed adds to the columns of the row.
FEED_COLUMNS = (CHANGE_TYPE, CHANGE_POSITION, CHANGE_TIME, CHANGE_SEQUENCE)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_preimage", "update_postimage", "delete"
_KEY, _AT, _WAS, _IS_DELETE, _TIME = (PREFIX + name for name in ("key_", "at", "was", "is_delete", "time"))
#: Follows the position of a change whose time has passed: a delete with it is newer than the stored row.
_EXPIRED = "~"


class FeedSequence:
    """Ascending number of each write into a feed: nanoseconds since 1970, unless the clock was set back."""

    def __init__(self) -> None:
        self._last: int | None = None

    def next(self, feed: DataFrame | None) -> int:
        """Return the number of the next write. ``feed``: the stored feed; it is read once."""
        if self._last is None:
            found = None if feed is None else feed.agg({CHANGE_SEQUENCE: "max"}).first()
            self._last = int(found[0] or 0) if found else 0
        self._last = max(time.time_ns(), self._last + 1)
        return self._last


def feed_key(key: Sequence[str]) -> tuple[str, ...]:
    """Return the key of a feed. A repeated write replaces its rows."""
    return (*key, CHANGE_POSITION, CHANGE_TYPE)


def is_feed(rows: DataFrame) -> bool:
    """Return whether the rows of a stored table are changes of another table."""
    return {*FEED_COLUMNS} <= {*rows.columns}


def select_changes(rows: DataFrame, stored: DataFrame | None, key: Sequence[str], sequence: int) -> DataFrame:
    """Return the changes that a write of rows makes to the stored rows: rows of the feed, to upsert.

    ``rows``: one per key, with POSITION, DELETED and perhaps COMMITTED. Rows that are not newer than the stored ones change nothing.
    """
    from pyspark.sql import functions as F

    if COMMITTED not in rows.columns:
        rows = rows.withColumn(COMMITTED, F.lit(None).cast("bigint"))
    position, time = F.col(POSITION), F.col(COMMITTED)
    if stored is None:
        inserts = rows.where(~F.col(DELETED))
        return _describe(inserts, _find_columns(rows), F.lit(INSERT), position, time, sequence)
    if POSITION not in stored.columns:  # Another writer created the table.
        stored = stored.withColumn(POSITION, F.lit(""))
    columns = _find_columns(stored, rows)
    before, after = _find_before(rows, stored, key), _find_after(rows, stored, key)
    old_kind = F.when(F.col(_IS_DELETE), DELETE).otherwise(UPDATE_BEFORE)
    new_kind = F.when(F.col(_WAS).isNull(), INSERT).otherwise(UPDATE_AFTER)
    return _describe(before, columns, old_kind, F.col(_AT), F.col(_TIME), sequence).unionByName(
        _describe(after, columns, new_kind, position, time, sequence)
    )


def select_expired(feed: DataFrame, before: int) -> DataFrame | None:
    """Return deletes of the changes of a feed with lower sequences, except for the newest of them; None if there are none.

    The newest of them shows its readers that no later change is missing.
    """
    from pyspark.sql import functions as F

    old = feed.where(F.col(CHANGE_SEQUENCE) < before)
    newest = old.agg(F.max(CHANGE_SEQUENCE)).first()
    if newest is None or newest[0] is None:
        return None
    own = [quote_name(name) for name in feed.columns if not name.startswith(PREFIX)]
    marks = [F.concat(F.col(CHANGE_POSITION), F.lit(_EXPIRED)).alias(POSITION), F.lit(True).alias(DELETED)]
    return old.where(F.col(CHANGE_SEQUENCE) < newest[0]).select(*own, *marks)


def _find_before(rows: DataFrame, stored: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the stored rows that the rows replace or remove, with the change's position and time."""
    from pyspark.sql import functions as F

    incoming = rows.select(
        *_name_keys(rows, key),
        F.col(POSITION).alias(_AT),
        F.col(COMMITTED).alias(_TIME),
        F.col(DELETED).alias(_IS_DELETE),
    )
    joined = stored.join(incoming, _is_same(stored, key))
    was = F.coalesce(stored[POSITION], F.lit(""))
    return joined.where((was < F.col(_AT)) | (F.col(_IS_DELETE) & (was == F.col(_AT))))


def _find_after(rows: DataFrame, stored: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the rows that are newer than the stored ones; ``_WAS`` is null for a new key."""
    from pyspark.sql import functions as F

    known = stored.select(*_name_keys(stored, key), F.coalesce(F.col(POSITION), F.lit("")).alias(_WAS))
    upserts = rows.where(~F.col(DELETED))
    joined = upserts.join(known, _is_same(upserts, key), "left")
    return joined.where(F.col(_WAS).isNull() | (F.col(_WAS) < F.col(POSITION)))


def _name_keys(rows: DataFrame, key: Sequence[str]) -> list[Column]:
    return [rows[quote_name(name)].alias(f"{_KEY}{number}") for number, name in enumerate(key)]


def _is_same(rows: DataFrame, key: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F

    return [rows[quote_name(name)] == F.col(f"{_KEY}{number}") for number, name in enumerate(key)]


def _describe(
    rows: DataFrame, columns: StructType, kind: Column, position: Column, time: Column, sequence: int
) -> DataFrame:
    """Return rows of the feed. ``columns``: those of the table; ``time``: milliseconds since 1970."""
    from pyspark.sql import functions as F, types as T

    feed = {
        CHANGE_TYPE: kind,
        CHANGE_POSITION: position,
        CHANGE_TIME: F.timestamp_millis(time),
        CHANGE_SEQUENCE: F.lit(sequence).cast("bigint"),
    }
    described = rows.withColumns({**feed, POSITION: position, DELETED: F.lit(False)})
    added = [described.schema[name] for name in (*FEED_COLUMNS, POSITION, DELETED)]
    return align(described, T.StructType([*columns, *added]))


def _find_columns(*tables: DataFrame) -> StructType:
    """Return the columns of the tables without those of headrace."""
    fields = [field for rows in tables for field in rows.schema if not field.name.startswith(PREFIX)]
    return merge_columns(fields, name_fold(tables[0].sparkSession))
