"""Tombstones whose delete is gone, as it goes from a compacted topic. They have no position of the database's; what tells that one
is newer than a stored row is that it lies behind the row's event in its partition.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.sdk.positions import SORTABLE, TOMBSTONE
from headrace.spark.columns import quote_name
from headrace.upsert.unavailable import FILLED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from headrace.upsert.deleted_keys import DeletedKeys

_KEY, _TOMBSTONE = PREFIX + "tombstone_key_", PREFIX + "tombstone"


@dataclass(frozen=True)
class _Place:
    """A record's offset and partition as texts that sort; empty where a position has no such place."""

    offset: Column
    partition: Column

    @classmethod
    def of(cls, position: Column, before: str) -> _Place:
        from pyspark.sql import functions as F

        pattern = f"^{before}({SORTABLE})({SORTABLE}){FILLED_SUFFIX}*$"
        return cls(F.regexp_extract(position, pattern, 1), F.regexp_extract(position, pattern, 2))

    def is_before(self, other: _Place) -> Column:
        """Whether it lies before the other in the same partition."""
        return (self.partition == other.partition) & (self.offset != "") & (self.offset < other.offset)


@contextmanager
def deletes_for(
    tombstones: DataFrame, stored: DataFrame, key: Sequence[str], before: str, deleted: DeletedKeys | None
) -> Iterator[DataFrame]:
    """Deletes of the stored rows whose event lies before a tombstone of their key, at positions just behind theirs.

    ``before``: what the batch's positions have before the place, as a regular expression; rows whose positions have something
    else stay. ``deleted``: the deletes that are remembered. One that lies between the two has said what the tombstone says.
    """
    from pyspark.sql import functions as F

    rows = _join(tombstones, stored, key)
    row, tombstone = _Place.of(F.col(POSITION), before), _Place.of(F.col(_TOMBSTONE), TOMBSTONE)
    rows = rows.where(row.is_before(tombstone))

    def has_said_it(position: Column) -> Column:
        delete = _Place.of(position, before)
        return row.is_before(delete) & delete.is_before(tombstone)

    with deleted.drop_where(rows, key, has_said_it) if deleted else nullcontext(rows) as kept:
        position = F.concat(F.col(POSITION), F.lit(FILLED_SUFFIX)).alias(POSITION)
        yield kept.select(*[F.col(quote_name(name)) for name in key], F.lit(True).alias(DELETED), position)


def _join(tombstones: DataFrame, stored: DataFrame, key: Sequence[str]) -> DataFrame:
    """The stored rows of the tombstones' keys: their keys and positions, and the tombstones' positions."""
    from pyspark.sql import functions as F

    rows = stored.select(*[stored[quote_name(name)].alias(name) for name in key], stored[POSITION])
    keys = [F.col(quote_name(name)).alias(f"{_KEY}{i}") for i, name in enumerate(key)]
    others = tombstones.select(*keys, F.col(POSITION).alias(_TOMBSTONE))
    return rows.join(others, [F.col(quote_name(name)) == F.col(f"{_KEY}{i}") for i, name in enumerate(key)])
