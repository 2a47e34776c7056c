"""Removal of stored rows that their source no longer has, after the batch's rows were written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.plan.routing import Target
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.write.removed_rows import Removed
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import TablePlan
from headrace.errors import DataError
from headrace.sdk.changes import DELETED, KEY
from headrace.sdk.sink import Sink
from headrace.spark.sessions import materialize
from headrace.upsert.missing_rows import deletes_of_missing
from headrace.upsert.table_sources import EARLIER
from headrace.upsert.table_state import TableState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def remove_missing(
    target: Target, table_plan: TablePlan, state: TableState, reader: ChangeReader, sinks: SinkWriter
) -> Mapping[Sink, Removed]:
    """Remove the stored rows whose key is not among the current rows of their topic, from each upsert sink that has some.

    The current rows are read here, after the batch's rows were written. So every stored row was read earlier, and no row is removed
    that the source got in the meantime. The deletes are not remembered: a later batch may return a row of an older position.
    """
    with ExitStack() as scope:
        deletes: dict[Sink, DataFrame] = {}
        for sink in table_plan.upsert_sinks:
            found = _find_missing(target, table_plan, state, reader, sinks, sink)
            if found:
                deletes[sink] = scope.enter_context(materialize(reduce(lambda a, b: a.unionByName(b), found)))
        counts = {sink: count for sink, rows in deletes.items() if (count := rows.count())}
        mark = table_plan.marks.missing
        return {
            sink: Removed(count, sinks.delete(table_plan, sink, deletes[sink], mark, state))
            for sink, count in counts.items()
        }


def _find_missing(
    target: Target, table_plan: TablePlan, state: TableState, reader: ChangeReader, sinks: SinkWriter, sink: Sink
) -> list[DataFrame]:
    """Return deletes of the missing rows of each topic that is compared in this batch; empty without a stored table."""
    from pyspark.sql import functions as F

    session, key = sinks.session_of(target.name), table_plan.table.key
    found = []
    for events, route in target.sources:
        if events.load_current is None or (stored := sinks.read_stored(sink, table_plan.table)) is None:
            continue
        if EARLIER in state.sources.names:
            raise DataError(
                "its rows of several sources cannot be distinguished, so missing rows cannot be found",
                where=f"table {target.name}, topic {events.topic}",
                fix=f"if all of its rows have one source, stop the run and remove {EARLIER!r} from {state.sources.path}; otherwise, "
                "remove the comparison from the options of the source",
            )
        current = replace(events, load=events.load_current)
        changes = reader.read_changes(session, current, route, has_unavailable=bool(state.has_unavailable))
        # A row that is rejected exists, too.
        rows = changes.frame.where(~F.coalesce(F.col(DELETED), F.lit(False))).select(f"{KEY}.*")
        found.append(deletes_of_missing(stored, rows, key, events.topic, state.sources))
    return found
