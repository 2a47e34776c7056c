"""Columns of the tables of a run, and those from which they are made."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from headrace.engine.read.column_tracer import ColumnTracer, TopicTrace, list_types
from headrace.sdk.changes import Changes

#: Column → type in Spark SQL.
Types = Mapping[str, str]


class LineageLog:
    """Log of the columns of tables, for observers. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Table → topic → its columns.
        self._topics: dict[str, dict[str, TopicTrace]] = {}
        #: View → columns of the tables that it reads, and its own.
        self._views: dict[str, tuple[Mapping[str, Types], Types]] = {}
        #: Topic and table → the columns that were traced.
        self._traced: dict[tuple[str, str | None], Types] = {}

    def trace(self, topic: str, changes: Changes) -> ColumnTracer | None:
        """Return the tracer of a topic's columns; None if they were traced before."""
        with self._lock:
            is_known = self._traced.get((topic, changes.table)) == list_types(changes)
        return None if is_known else ColumnTracer(topic, changes)

    def note(self, tracer: ColumnTracer, changes: Changes, own: str | None) -> None:
        """Record the columns of a topic after its transforms. ``own``: the table of changes without one; None if they are dead letters."""
        trace, table = tracer.end(changes), changes.table or own
        if trace is None:
            return
        with self._lock:
            self._traced[trace.topic, changes.table] = trace.given
            if table is not None:
                self._topics.setdefault(table, {})[trace.topic] = trace

    def note_view(self, view: str, given: Mapping[str, Types], made: Types) -> None:
        """Record the columns of the tables that a view reads, and its own."""
        with self._lock:
            self._views[view] = given, made

    def read(self) -> tuple[dict[str, list[TopicTrace]], dict[str, tuple[Mapping[str, Types], Types]]]:
        """Return table → traces of its topics, and view → columns of the tables that it reads, and its own."""
        with self._lock:
            return {table: list(traces.values()) for table, traces in self._topics.items()}, dict(self._views)
