"""Writes into sinks: all sinks of a table in parallel, each in its own session, with retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import retry
from headrace.engine.plan.stored_table import read_all_stored, read_stored
from headrace.engine.read.change_reader import drop_tombstone_rows
from headrace.engine.write.feed_writer import FeedWriter
from headrace.engine.write.history_plan import KEYED
from headrace.engine.write.table_plan import TablePlan
from headrace.engine.write.version_writer import write_versions
from headrace.engine.write.view_capture import ViewCapture
from headrace.errors import HeadraceError, PluginError, RetriableError
from headrace.sdk.changes import COMMITTED, TOMBSTONE, UNAVAILABLE
from headrace.sdk.sink import Batch, Mode, Sink, Table, TableMode, WriteResult
from headrace.spark.job_tags import tag_jobs
from headrace.spark.sessions import Sessions, move_to_session
from headrace.upsert.change_feed import FeedSequence
from headrace.upsert.fill_unavailable import fill_from_stored
from headrace.upsert.truncates import deletes_before, ends_of_versions
from headrace.upsert.versions import current_rows, is_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.upsert.remembered_changes import RememberedChanges
    from headrace.upsert.table_state import TableState

_REPORT = "report it to its author"


class SinkWriter:
    """Writer of a table's batch into all sinks of a plan."""

    def __init__(self, plan: Plan, sessions: Sessions, views: ViewCapture | None = None) -> None:
        """Write with the sinks of the plan. ``views``: required if the plan has views."""
        self._plan, self._sessions, self._views = plan, sessions, views
        self._feeds = FeedWriter(plan)

    def session_of(self, table: str) -> SparkSession:
        """Return the session in which the first sink writes a table, and in which its changes are planned."""
        return self._session(table, self._plan.sinks[0], "0")

    def read_stored(self, sink: Sink, table: Table) -> DataFrame | None:
        """Return a sink's stored table in the session in which its changes are planned; None without a table."""
        return read_stored(sink, table, self.session_of(table.name))

    def write(
        self,
        table_plan: TablePlan,
        frames: Mapping[TableMode, DataFrame],
        state: TableState | None = None,
    ) -> list[WriteResult]:
        """Write the frame of its mode into each sink, and then into the second table of mode ``both``.

        Return the results in the order of the sinks, after all have ended; those of the second table come last. ``state``: required
        for a history.
        """
        with ExitStack() as scope:
            for sink, mode in table_plan.modes.items():
                scope.enter_context(self._capture(table_plan, sink, mode, frames[mode]))
            pool = scope.enter_context(
                ThreadPoolExecutor(max_workers=len(table_plan.modes), thread_name_prefix="headrace-sink")
            )
            writes = [
                pool.submit(self._write, table_plan, sink, number, mode, frames[mode], state)
                for number, (sink, mode) in enumerate(table_plan.modes.items())
            ]
            results = [write.result() for write in writes]
        return [*results, *self.write(table_plan.history, frames, state)] if table_plan.history else results

    def truncate(
        self, table_plan: TablePlan, truncates: Mapping[str, str], state: TableState, each: DataFrame | None = None
    ) -> None:
        """Remove the stored rows that are older than a truncate of their source, and end their versions. ``truncates``: source → position.

        ``each``: SOURCE, POSITION and COMMITTED of every truncate, which end versions of a history. Without it, those of ``truncates``
        end them, now.
        """
        batch, key = self._batch(table_plan.marks.truncate, table_plan, "upsert"), table_plan.table.key
        for sink in table_plan.truncated_sinks:
            session = self._session(table_plan.table.name, sink, "truncate")
            stored = read_all_stored(sink, table_plan.table, session)
            if stored is None:
                continue
            if is_history(stored) and each is not None:
                deletes = ends_of_versions(stored, key, move_to_session(each, session), truncates, state.sources)
            else:
                rows = current_rows(stored) if is_history(stored) else stored
                deletes = deletes_before(rows, key, truncates, state.sources)
            write = partial(self._remove, table_plan, sink, deletes, batch, state)
            with self._capture(table_plan, sink, "upsert", deletes):
                self.retry(sink, table_plan.table.name, write)
        if table_plan.history:
            self.truncate(table_plan.history, truncates, state, each)

    def delete(
        self, table_plan: TablePlan, sink: Sink, deletes: DataFrame, mark: str, state: TableState
    ) -> WriteResult:
        """Remove rows of a table. ``mark``: the one of this step."""
        session = self._session(table_plan.table.name, sink, "truncate")
        rows, batch = move_to_session(deletes, session), self._batch(mark, table_plan, "upsert")
        with (
            tag_jobs(session, self._plan.checkpoint, table_plan.table.name),
            self._capture(table_plan, sink, "upsert", rows),
        ):
            result = self.retry(sink, table_plan.table.name, lambda: self._remove(table_plan, sink, rows, batch, state))
        if table_plan.history and sink in table_plan.history.modes:
            self.delete(table_plan.history, sink, deletes, mark, state)
        return result

    def retry(self, sink: Sink | None, table: str, write: Callable[[], WriteResult]) -> WriteResult:
        """Run a write, and repeat it while it raises a RetriableError.

        ``sink``: the one that writes; None for headrace itself.
        """
        where = f"table {table}, sink {self._plan.name_of(sink)}" if sink else f"table {table}"

        def translate_with_place(raised: Exception) -> HeadraceError:
            return translate(raised, self._plan, sink).at(where)

        result: Any = retry(write, translate_with_place)
        if not isinstance(result, WriteResult):
            found = type(result).__name__
            raise PluginError(f"write returns {found} instead of a WriteResult", where=where, fix=_REPORT)
        return result

    def _capture(
        self, table_plan: TablePlan, sink: Sink, mode: TableMode, rows: DataFrame
    ) -> AbstractContextManager[None]:
        """Return a block that records the rows to write for the views that read the table."""
        if self._views is None:
            assert not self._plan.views
            return nullcontext()

        def read() -> DataFrame | None:
            return read_stored(sink, table_plan.table, rows.sparkSession)

        return self._views.hold(self._plan, sink, table_plan.table, mode, rows, read)

    def _write(
        self,
        table_plan: TablePlan,
        sink: Sink,
        number: int,
        mode: TableMode,
        frame: DataFrame,
        state: TableState | None,
    ) -> WriteResult:
        table, session = table_plan.table, self._session(table_plan.table.name, sink, str(number))
        rows = frame if frame.sparkSession is session else move_to_session(frame, session)
        rows = rows if mode in KEYED else _keep_for_sink(rows, sink, table_plan)
        batch = self._batch(table_plan.marks.pipeline, table_plan, mode)

        def write() -> WriteResult:
            if mode == "history":
                is_first = sink is table_plan.history_sinks[0]
                return write_versions(table_plan, sink, rows, batch, _find_hidden(state), keeps_hidden=is_first)
            if not table_plan.unavailable or batch.mode == "append":
                return self._apply(table_plan, sink, rows, batch, state)
            with fill_from_stored(rows, read_stored(sink, table, session), table.key, table_plan.unavailable) as filled:
                return self._apply(table_plan, sink, filled, batch, state)

        with tag_jobs(session, self._plan.checkpoint, table.name):
            return self.retry(sink, table.name, write)

    def _remove(
        self,
        table_plan: TablePlan,
        sink: Sink,
        deletes: DataFrame,
        batch: Batch,
        state: TableState | None = None,
    ) -> WriteResult:
        if table_plan.modes.get(sink) == "history":
            return write_versions(table_plan, sink, deletes, batch, _find_hidden(state))
        return self._apply(table_plan, sink, deletes, batch, state)

    def _apply(
        self, table_plan: TablePlan, sink: Sink, rows: DataFrame, batch: Batch, state: TableState | None
    ) -> WriteResult:
        """Write rows, and their changes into the feed of the table, if it has one."""
        if sink in table_plan.feed_sinks and batch.mode == "upsert":
            sequence = state.feed_sequence(self._plan.name_of(sink)) if state else FeedSequence()
            self._feeds.add(sink, table_plan.table, rows, batch, sequence)
        return sink.write(table_plan.table, rows.drop(COMMITTED), batch)

    def _batch(self, mark: str, table_plan: TablePlan, mode: TableMode) -> Batch:
        marks, is_maintained = table_plan.marks, self._plan.settings.maintenance.enabled
        kind: Mode = "upsert" if mode in KEYED else "append"
        return Batch(mark, marks.batch, kind, is_maintained=is_maintained, digest=marks.digest)

    def _session(self, table: str, sink: Sink, purpose: str) -> SparkSession:
        return self._sessions.of(f"{table}/{sink.name}/{purpose}")


def _find_hidden(state: TableState | None) -> RememberedChanges | None:
    return state.hidden_changes if state else None


def _keep_for_sink(rows: DataFrame, sink: Sink, table_plan: TablePlan) -> DataFrame:
    """Keep only the record columns that a sink stores, tombstones if it stores them, and UNAVAILABLE if it accepts new columns."""
    stored_columns = set(sink.record_columns())
    if table_plan.keeps_tombstones and TOMBSTONE not in stored_columns:
        rows = drop_tombstone_rows(rows)
    left_out: set[str] = set() if sink.capabilities.schema_evolution else {UNAVAILABLE}
    return rows.drop(*(table_plan.record_columns - stored_columns | left_out))


class SinkPoller:
    """Caller of ``on_idle`` of sinks, which may have work without new rows."""

    def __init__(
        self, pipeline: str, sessions: Sessions, note_error: Callable[[HeadraceError | None], None] = lambda error: None
    ) -> None:
        """``pipeline``: the checkpoint's id; ``note_error``: gets an error that may be temporary, and None after a success."""
        self._pipeline, self._session, self._note_error = pipeline, sessions.of("batch"), note_error

    def poll(self, plan: Plan) -> float | None:
        """Call the sinks of a plan, and return the seconds until the next call; None if no sink requests one.

        Raises after all calls if one failed: a RetriableError only if all failed calls may succeed later.
        """
        pauses, errors = list[float | None](), list[HeadraceError]()
        for sink in plan.all_sinks:
            try:
                pauses.append(self._poll(plan, sink))
            except HeadraceError as error:
                errors.append(error)
        if errors:
            worst = min(errors, key=lambda error: isinstance(error, RetriableError))
            self._note_error(worst if isinstance(worst, RetriableError) else None)
            raise worst
        self._note_error(None)
        return min((pause for pause in pauses if pause is not None), default=None)

    def _poll(self, plan: Plan, sink: Sink) -> float | None:
        def translate_with_place(raised: Exception) -> HeadraceError:
            return translate(raised, plan, sink).at(f"sink {plan.name_of(sink)}")

        def writes(table: str) -> bool:
            return sink in plan.for_table(table).sinks

        return retry(lambda: sink.on_idle(self._session, self._pipeline, writes), translate_with_place)
