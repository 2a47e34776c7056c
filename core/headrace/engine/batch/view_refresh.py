"""Refresh of views after the tables of a batch.

A refresh computes the rows that the queued changes can have affected from the stored tables. Each attempt has a higher number than all
earlier ones, so that a repeated refresh replaces the rows of the interrupted one, and no sink skips it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.view_queue import QueueEntry, ViewQueue, ViewState
from headrace.engine.batch.table_pool import TableOutcome, TablePool
from headrace.engine.batch.view_rows import ViewTables, check_keys, describe_types, find_deletes, find_key, open_tables
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.stored_table import read_stored
from headrace.engine.plan.view_plan import View, list_readers
from headrace.engine.read.lineage_log import LineageLog
from headrace.engine.write.view_capture import ViewCapture
from headrace.engine.write.view_modes import check_receives
from headrace.engine.write.view_writer import ViewWriter, find_last_number, has_only_refreshes
from headrace.errors import ConfigError, HeadraceError
from headrace.progress.model import TableProgress
from headrace.sdk.changes import POSITION
from headrace.sdk.sink import Table
from headrace.spark.columns import quote_name
from headrace.spark.job_tags import tag_jobs
from headrace.spark.sessions import Sessions, materialize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Note for a view that was computed whole again, and whose sinks do not return its earlier rows.
INCOMPLETE = "was computed whole; a sink that appends gets no delete for a key that the view no longer has"
#: Entries of a table that wait for a view. A view with more of them is computed whole.
MAX_ENTRIES = 1000


@dataclass(frozen=True)
class _Work:
    """Changes that a view has not applied. ``finished``: table → entries of ended writes; ``entries``: of all writes."""

    finished: Mapping[str, list[QueueEntry]]
    entries: Mapping[str, list[QueueEntry]]

    @property
    def names(self) -> set[str]:
        """Names of the entries that a refresh applies."""
        return {entry.name for entries in self.finished.values() for entry in entries}

    def is_unknown(self, view: View) -> bool:
        """Return whether any row of a table may have changed, or entries lack columns that the view reads."""
        return any(
            entry.types is None or not entry.has_columns(view.query.needed_columns(table))
            for table, entries in self.entries.items()
            for entry in entries
        )


class ViewRefresher:
    """Refresher of the views of a run. Threads may share it: one refresh runs at a time."""

    def __init__(self, checkpoint: Checkpoint, sessions: Sessions, lineage: LineageLog | None = None) -> None:
        self._checkpoint, self._sessions, self._lock = checkpoint, sessions, threading.Lock()
        self._lineage = lineage
        self._queue = ViewQueue(checkpoint.views)
        self.capture = ViewCapture(self._queue)
        #: View → its error in the last refresh.
        self.errors: dict[str, HeadraceError] = {}
        #: Views whose number was compared with their stored rows.
        self._numbered: set[str] = set()

    def clean(self, plan: Plan) -> None:
        """Remove what the views of the plan do not need. Called once, when no other run uses the checkpoint."""
        self._queue.retain([v.name for v in plan.views], {table for v in plan.views for table in v.query.tables})
        for view in plan.views:
            # The changes from now on are recorded for the new definition alone, also if the old one returns.
            if (state := self._queue.state(view.name)).digest and state.definition != view.digest():
                self._queue.save(view.name, replace(state, digest=""))

    def refresh(self, plan: Plan, pool: TablePool | None = None) -> tuple[TableProgress, ...]:
        """Bring every view up to date with the stored tables, and return the progress of the views with changes.

        The progress of a view has its error. ``pool``: limits the time of each view.
        """
        progress: list[TableProgress] = []
        with self._lock:
            for view in plan.views:
                outcome = self._process(plan, view, pool)
                self.errors.pop(view.name, None)
                if outcome.error is not None:
                    self.errors[view.name] = outcome.error
                    progress += _describe_failure(plan, view, outcome)
                progress += outcome.progress
            self._remove_applied(plan)
        return tuple(progress)

    def raise_first_error(self) -> None:
        """Raise the error of the first view that failed in the last refresh."""
        for error in self.errors.values():
            raise error

    def _process(self, plan: Plan, view: View, pool: TablePool | None) -> TableOutcome:
        process = partial(self._try_refresh, plan)
        if pool is None or not self._find_work(view, self._queue.state(view.name)).names:
            return process(view)
        try:
            pool.check_free(view.name)
        except HeadraceError as error:
            return TableOutcome(error=error)
        return pool.process([view], process)[view.name]

    def _try_refresh(self, plan: Plan, view: View) -> TableOutcome:
        """Refresh a view. Its errors are returned, not raised."""
        start = time.monotonic()
        try:
            with tag_jobs(self._sessions.of("batch"), plan.checkpoint, view.name):
                return TableOutcome(self._refresh_view(plan, view))
        except Exception as raised:  # noqa: BLE001 - the other views and the tables continue
            error = translate(raised, plan).at(f"view {view.name}").redact(plan.redact)
            return TableOutcome(error=error, seconds=time.monotonic() - start)

    def _refresh_view(self, plan: Plan, view: View) -> tuple[TableProgress, ...]:
        start, state, own_plan = time.monotonic(), self._queue.state(view.name), plan.for_table(view.name)
        writer = ViewWriter(own_plan, view, self._sessions, self.capture, self._checkpoint.id)
        time_zone = writer.session.conf.get("spark.sql.session.timeZone") or ""
        digest, work = view.digest(time_zone, *writer.places), self._find_work(view, state)
        if state.digest.startswith(digest) and not work.names:
            return ()
        tables = self._read_tables(plan, view, writer)
        if missing := [name for name, rows in tables.items() if rows is None]:
            return _describe_missing(own_plan, view, missing[0], is_built=bool(state.digest))
        relations = {name: rows for name, rows in tables.items() if rows is not None}
        # A value of a wider type may give another text in each row.
        digest += view.digest(*describe_types(view, relations))
        stored = writer.read_stored(view.base_sink)
        is_whole = (
            state.digest != digest or view.is_full or work.is_unknown(view) or any(rows is None for rows in stored)
        )
        with ExitStack() as scope:
            opened = scope.enter_context(open_tables(writer.session, view, relations, self._queue))
            touched = None if is_whole else self._find_touched(scope, opened, view, state, work)
            if touched is not None and touched.isEmpty():
                progress: list[TableProgress] = []
            else:
                progress = self._write(scope, opened, view, writer, touched, [s for s in stored if s is not None])
        self._finish(view, state, digest, work)
        note = INCOMPLETE if is_whole and state.digest and not stored else None
        seconds = round(time.monotonic() - start, 3)
        return tuple(replace(one, seconds=seconds, note=one.note or note) for one in progress)

    def _finish(self, view: View, before: ViewState, digest: str, work: _Work) -> None:
        """Record that a view has the changes of its refresh."""
        state, known = self._queue.state(view.name), self._find_work(view, ViewState()).entries
        existing = {entry.name for entries in known.values() for entry in entries}
        # A refresh that timed out may end after its other changes were removed from the queue.
        digest = digest if state.digest == before.digest else ""
        done = tuple(sorted(existing & {*before.done, *work.names}))
        self._queue.save(view.name, ViewState(state.number, digest, view.key, done, view.digest()))

    def _write(
        self,
        scope: ExitStack,
        tables: ViewTables,
        view: View,
        writer: ViewWriter,
        touched: DataFrame | None,
        stored: list[DataFrame],
    ) -> list[TableProgress]:
        """Compute the rows with the touched keys, or all rows, and write them with the deletes of the other keys."""
        rows = scope.enter_context(materialize(tables.all_rows() if touched is None else tables.touched_rows(touched)))
        key = find_key(view, rows.columns)
        check_keys(view, rows, key)
        if self._lineage is not None:
            self._lineage.note_view(view.name, tables.types, dict(rows.dtypes))
        keys = [rows.select(*map(quote_name, key)).limit(0)]
        keys += self._read_keys(view, key, stored) if touched is None else [touched]
        deletes = scope.enter_context(find_deletes(keys, rows, key))
        return writer.write(rows, deletes, key, self._begin(view, writer, stored))

    def _read_keys(self, view: View, key: tuple[str, ...], stored: list[DataFrame]) -> list[DataFrame]:
        """Return the keys of the stored view. ConfigError if its table has another key, or is not one of headrace."""
        is_other = self._queue.state(view.name).key not in ((), view.key)
        is_checked = view.name in self._numbered
        for rows in stored:
            is_view = POSITION in rows.columns and set(key) <= set(rows.columns)
            if is_other or not is_view or not (is_checked or has_only_refreshes(rows)):
                raise ConfigError(
                    f"its table exists, and was not written by a view with the key ({', '.join(view.key)})",
                    where=f"view {view.name}",
                    fix="give the view another name, or remove the table",
                )
        return [rows.select(*map(quote_name, key)) for rows in stored]

    def _begin(self, view: View, writer: ViewWriter, stored: list[DataFrame]) -> int:
        """Return the number of a new attempt, and record it before anything is written.

        ConfigError if a table has the view in another mode.
        """
        state = self._queue.state(view.name)
        number = state.number
        if view.name not in self._numbered:
            writer.check_modes()
            # The view's table may be newer than the state, and a refresh with deletes only leaves no row with its number. No
            # earlier number is higher than the time in milliseconds, unless the clock went back.
            number = max(number, find_last_number(stored), int(time.time() * 1000))
            self._numbered.add(view.name)
        self._queue.save(view.name, replace(state, number=number + 1))
        return number + 1

    def _find_touched(
        self, scope: ExitStack, tables: ViewTables, view: View, state: ViewState, work: _Work
    ) -> DataFrame | None:
        """Return the keys whose rows may have changed; None if it is unknown which.

        They are computed again if a write began meanwhile: a table may then lack old rows that are in no entry that was read.
        """
        while True:
            touched = scope.enter_context(materialize(tables.touched_keys(work.finished, work.entries)))
            now = self._find_work(view, state)
            if now.entries == work.entries:
                return touched
            if now.is_unknown(view):
                return None
            work = _Work(work.finished, now.entries)

    def _find_work(self, view: View, state: ViewState) -> _Work:
        done, sink = set(state.done), view.base_sink
        names = view.query.tables
        finished = {t: [e for e in self._queue.finished_entries(t, sink) if e.name not in done] for t in names}
        entries = {t: [e for e in self._queue.entries(t, sink) if e.name not in done] for t in names}
        return _Work(finished, entries)

    def _read_tables(self, plan: Plan, view: View, writer: ViewWriter) -> dict[str, DataFrame | None]:
        """Return the stored tables of a view; None for a table that does not exist yet, such as one with deletes alone.

        ConfigError for a table that its sink does not receive.
        """
        tables: dict[str, DataFrame | None] = {}
        for table in view.query.tables:
            sink = check_receives(plan, view, table)
            tables[table] = read_stored(sink, Table(table), writer.session)
        return tables

    def _remove_applied(self, plan: Plan) -> None:
        """Remove the entries that every view has applied."""
        for table, sink in {(table, view.base_sink) for view in plan.views for table in view.query.tables}:
            entries = self._queue.finished_entries(table, sink)
            readers = [view for view in list_readers(plan.views, table) if view.base_sink == sink]
            needed = [set(state.done) for view in readers if (state := self._queue.state(view.name)).digest]
            self._queue.remove(table, [e.name for e in entries if all(e.name in done for done in needed)])
            if len(self._queue.finished_entries(table, sink)) > MAX_ENTRIES:
                for view in readers:
                    self._queue.save(view.name, replace(self._queue.state(view.name), digest=""))


def _describe_missing(plan: Plan, view: View, table: str, *, is_built: bool) -> tuple[TableProgress, ...]:
    """Return the progress of a view whose table does not exist yet. ConfigError if the view was computed before."""
    if is_built:
        raise ConfigError(
            f"the table {table} does not exist", where=f"view {view.name}", fix="restore it, or remove the view"
        )
    return tuple(
        TableProgress(view.name, name, rows_in=0, applied=0, late=0, superseded=0, note=f"waits for the table {table}")
        for name in plan.sink_names.values()
    )


def _describe_failure(plan: Plan, view: View, outcome: TableOutcome) -> tuple[TableProgress, ...]:
    names, seconds = plan.for_table(view.name).sink_names.values(), round(outcome.seconds, 3)
    return tuple(TableProgress(view.name, name, seconds=seconds, error=str(outcome.error)) for name in names)
