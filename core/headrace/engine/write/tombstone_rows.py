"""Removal of rows by tombstones of keys without another change in the batch, after the batch's rows were written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.write.removed_rows import Removed
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import TablePlan
from headrace.sdk.changes import POSITION
from headrace.sdk.sink import Sink
from headrace.spark.columns import quote_name
from headrace.spark.sessions import materialize
from headrace.upsert.table_state import TableState
from headrace.upsert.tombstones import deletes_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def remove_rows(
    tombstones: DataFrame, table_plan: TablePlan, state: TableState, sinks: SinkWriter, newest_change: int | None
) -> Mapping[Sink, Removed]:
    """Remove the stored rows that are older than a tombstone of their key, from each upsert sink that has some.

    Repeating it removes nothing. ``tombstones``: one per key, with the key's columns and POSITION; ``newest_change`` as in
    ``DeletedKeys.expire``.
    """
    key = table_plan.table.key
    deleted = state.deleted_keys if table_plan.remembers_deletes else None
    with ExitStack() as scope:
        few = scope.enter_context(materialize(tombstones.select(*[quote_name(name) for name in key], POSITION)))
        deletes: dict[Sink, DataFrame] = {}
        for sink in table_plan.upsert_sinks:
            stored = sinks.read_stored(sink, table_plan.table)
            if stored is not None:
                found = scope.enter_context(deletes_for(few, stored, key, table_plan.before_place, deleted))
                deletes[sink] = scope.enter_context(materialize(found))
        counts = {sink: count for sink, found in deletes.items() if (count := found.count())}
        if counts and deleted:
            # This precedes the tables: once a row is removed, a repeated batch would not find the delete to remember.
            rows = reduce(lambda a, b: a.unionByName(b), [deletes[sink] for sink in counts])
            deleted.remember(rows, key, table_plan.marks.batch, newest_change)
        mark = table_plan.marks.tombstones
        return {
            sink: Removed(count, sinks.delete(table_plan, sink, deletes[sink], mark, state))
            for sink, count in counts.items()
        }
