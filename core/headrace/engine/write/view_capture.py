"""Capture of a table's rows before a write, for the views that read the table.

A view finds the rows that a change affects from the table's rows before and after the write. The rows before it are stored in the
checkpoint with the keys of the write; the rows after it are read from the table by these keys. A repeated write adds another entry: the
first one stays, because the table may already have the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.checkpoint.view_queue import QueueEntry, ViewQueue
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.view_plan import View, list_readers
from headrace.engine.write.history_plan import KEYED
from headrace.sdk.changes import PREFIX
from headrace.sdk.sink import Sink, Table, TableMode
from headrace.spark.columns import fold_name, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Boolean column of an entry: the row is one of the table; otherwise it has only the key.
STORED = PREFIX + "stored"
_KEY = PREFIX + "written_key_"


class ViewCapture:
    """Recorder of the changes that a write makes to a table."""

    def __init__(self, queue: ViewQueue) -> None:
        self._queue = queue

    def is_needed(self, plan: Plan, table: str) -> bool:
        """Return whether a view reads a table."""
        return bool(list_readers(plan.views, table))

    @contextmanager
    def hold(
        self,
        plan: Plan,
        sink: Sink,
        table: Table,
        mode: TableMode,
        rows: DataFrame,
        read_stored: Callable[[], DataFrame | None],
    ) -> Iterator[None]:
        """Record the rows of a table in a sink that the block writes or removes. ``rows``: the rows to write, or deletes."""
        name = plan.name_of(sink)
        readers = [view for view in list_readers(plan.views, table.name) if view.base_sink == name]
        if not readers:
            yield
            return
        with self._queue.hold(table.name) as entry_name:
            key = table.key if mode in KEYED else ()
            # Without a view that has been computed, each view is computed whole.
            updated = [view for view in readers if not view.is_full and self._queue.state(view.name).digest]
            entry = QueueEntry(table.name, entry_name, name, key, columns=_find_columns(table.name, key, updated))
            self._queue.add(entry, _changed_rows(rows, entry, read_stored) if updated else None)
            yield


def _changed_rows(rows: DataFrame, entry: QueueEntry, read_stored: Callable[[], DataFrame | None]) -> DataFrame:
    """Return the stored rows of the keys that are written, and these keys; for a table without a key, the rows to write."""
    from pyspark.sql import functions as F

    if not entry.key:
        return rows.select(*_choose_columns(rows, entry), F.lit(True).alias(STORED))
    stored = read_stored()
    if stored is None:
        return rows.select(*_quote(entry.key), F.lit(False).alias(STORED))
    # The table may have wider types than the rows, or get the wider types of the rows with this write.
    keys = rows.select(*_quote(entry.key))
    written = keys.toDF(*[f"{_KEY}{number}" for number in range(len(entry.key))])
    is_same = [stored[quote_name(k)] == written[f"{_KEY}{number}"] for number, k in enumerate(entry.key)]
    old = stored.join(written, is_same, "left_semi").select(*_choose_columns(stored, entry))
    keys = keys.withColumn(STORED, F.lit(False))
    return old.withColumn(STORED, F.lit(True)).unionByName(keys, allowMissingColumns=True)


def _find_columns(table: str, key: Sequence[str], views: Sequence[View]) -> tuple[str, ...] | None:
    """Return the key columns of a table and the columns that views read, in lower case; None for all columns."""
    names = set(map(fold_name, key))
    for view in views:
        if (needed := view.query.needed_columns(table)) is None:
            return None
        names |= needed
    return tuple(sorted(names))


def _choose_columns(rows: DataFrame, entry: QueueEntry) -> list[str]:
    """Return the columns of a table that an entry has, quoted."""
    own = [name for name in rows.columns if not name.startswith(PREFIX)]
    return _quote([name for name in own if entry.columns is None or fold_name(name) in entry.columns])


def _quote(names: Sequence[str]) -> list[str]:
    return [quote_name(name) for name in names]
