"""Tombstones whose delete was removed from a compacted topic.

They have no position of the database. One is newer than a stored row if it follows the row's event in its partition.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.sdk.positions import SORTABLE, TOMBSTONE
from headrace.spark.columns import quote_name
from headrace.upsert.table_sources import TAG
from headrace.upsert.unavailable import FILLED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from headrace.upsert.deleted_keys import DeletedKeys

_KEY, _TOMBSTONE = PREFIX + "tombstone_key_", PREFIX + "tombstone"


@dataclass(frozen=True)
class _Place:
    """Offset and partition of a record as sortable strings; empty if a position has none."""

    offset: Column
    partition: Column

    @classmethod
    def of(cls, position: Column, before: str) -> _Place:
        from pyspark.sql import functions as F

        pattern = f"^{before}({SORTABLE})({SORTABLE})(?:{TAG})?{FILLED_SUFFIX}*$"
        return cls(F.regexp_extract(position, pattern, 1), F.regexp_extract(position, pattern, 2))

    def is_before(self, other: _Place) -> Column:
        """Return whether it precedes the other in the same partition."""
        return (self.partition == other.partition) & (self.offset != "") & (self.offset < other.offset)


@contextmanager
def deletes_for(
    tombstones: DataFrame, stored: DataFrame, key: Sequence[str], before: str, deleted: DeletedKeys | None
) -> Iterator[DataFrame]:
    """Return deletes of the stored rows whose event precedes a tombstone of their key, at positions just after theirs.

    ``before``: regular expression of what the batch's positions have before the location; rows with other positions stay.
    ``deleted``: the remembered deletes. A delete between the row and the tombstone has the tombstone's effect already.
    """
    from pyspark.sql import functions as F

    rows = _join(tombstones, stored, key)
    row, tombstone = _Place.of(F.col(POSITION), before), _Place.of(F.col(_TOMBSTONE), TOMBSTONE)
    rows = rows.where(row.is_before(tombstone))

    def is_covered_by(position: Column) -> Column:
        delete = _Place.of(position, before)
        return row.is_before(delete) & delete.is_before(tombstone)

    with deleted.drop_where(rows, key, is_covered_by) if deleted else nullcontext(rows) as kept:
        position = F.concat(F.col(POSITION), F.lit(FILLED_SUFFIX)).alias(POSITION)
        yield kept.select(*[F.col(quote_name(name)) for name in key], F.lit(True).alias(DELETED), position)


def _join(tombstones: DataFrame, stored: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return keys and positions of the stored rows of the tombstones' keys, with the tombstones' positions."""
    from pyspark.sql import functions as F

    rows = stored.select(*[stored[quote_name(name)].alias(name) for name in key], stored[POSITION])
    keys = [F.col(quote_name(name)).alias(f"{_KEY}{i}") for i, name in enumerate(key)]
    others = tombstones.select(*keys, F.col(POSITION).alias(_TOMBSTONE))
    return rows.join(others, [F.col(quote_name(name)) == F.col(f"{_KEY}{i}") for i, name in enumerate(key)])
