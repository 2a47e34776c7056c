"""Rows to append, without those that the table has. Positions of a pipeline's appended rows are unique."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.sessions import materialize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def drop_stored(rows: DataFrame, read: Callable[[], DataFrame], *, is_known: bool) -> Iterator[DataFrame]:
    """Yield the rows to append. ``read``: reads the table; ``is_known``: the table has none of the rows.

    Otherwise, rows with stored positions are left out. The bounds of the batch's positions limit the files that are read.
    """
    from pyspark.sql import functions as F

    if is_known:
        yield rows.drop(DELETED)
        return
    columns = [quote_name(column) for column in rows.columns if column != DELETED]
    with materialize(rows) as stable:
        bounds = stable.agg(F.min(POSITION), F.max(POSITION)).first() or (None, None)
        stored = read().where(F.col(POSITION).between(*map(F.lit, bounds))).select(POSITION)
        yield stable.join(stored, POSITION, "left_anti").select(*columns)
