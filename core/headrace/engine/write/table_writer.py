"""Write of one table's part of a batch: named steps, in the order that correctness requires."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.offset_log import digest_offsets
from headrace.control_characters import escape_controls
from headrace.dead_letters.rows import ReplayRun
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Target
from headrace.engine.read.change_reader import ChangeReader, drop_tombstone_rows, drop_tombstones
from headrace.engine.read.key_updates import drop_other_halves, fail_on_rejected_half, is_rejected_half_error
from headrace.engine.read.lineage_log import LineageLog
from headrace.engine.read.transform_counts import TransformCounter
from headrace.engine.write.earlier_sources import may_have_several
from headrace.engine.write.feed_writer import feed_table
from headrace.engine.write.hidden_columns import check_hidden_columns
from headrace.engine.write.missing_rows import remove_missing
from headrace.engine.write.rejects import Rejected, Rejects, has_truncates
from headrace.engine.write.removed_rows import Removed, merge_removed
from headrace.engine.write.row_metrics import Counts, RowCounter, origin_aggregates
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.engine.write.table_results import list_progress
from headrace.engine.write.tombstone_rows import remove_rows
from headrace.engine.write.unsupported_rows import reject_unsupported
from headrace.engine.write.upsert_steps import (
    accept_rows,
    append_rows,
    cache_rows,
    carry_values_to_new_keys,
    changelog_rows,
    deduplicate,
    drop_before_truncate,
    drop_late_after_delete,
    exclude_tombstones,
    keep_for_upsert,
    select_tombstones,
    share_with_history,
)
from headrace.engine.write.version_writer import reject_versions
from headrace.engine.write.view_capture import ViewCapture
from headrace.errors import DataError
from headrace.progress.model import TableProgress
from headrace.sdk.changes import POSITION, Changes
from headrace.sdk.positions import SORTABLE, epoch_text, read_epoch
from headrace.sdk.sink import Sink, Table, TableMode, WriteResult
from headrace.spark.sessions import Sessions
from headrace.upsert.table_sources import EARLIER, SOURCE, is_row, names_source
from headrace.upsert.table_state import TableState, TableStates
from headrace.upsert.unavailable import MARKS, is_unavailable_value_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

#: Note for a table when it gets rows of a second source.
SHARED = "has rows of several sources, and each key must exist in only one of them"

#: Note for a table that an earlier checkpoint wrote.
OLDER = "has rows in an epoch that an earlier checkpoint raised"


class TableWriter:
    """Writer of a table's part of a batch. Writing the same part again changes nothing."""

    def __init__(
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        sessions: Sessions,
        states: TableStates,
        views: ViewCapture,
        *,
        replay: ReplayRun | None = None,
        lineage: LineageLog | None = None,
    ) -> None:
        """``replay``: the changes are replayed dead letters."""
        self._plan, self._checkpoint = plan, checkpoint
        self._mark = f"{checkpoint.id}/replay/{replay.name}" if replay else checkpoint.id
        self._write = int(replay.name) if replay else None
        self._reader = ChangeReader(plan, checkpoint.source_tables, checkpoint.inferred_columns, lineage)
        self._sinks, self._views = SinkWriter(plan, sessions, views), views
        self._rejects = Rejects(plan, checkpoint, self._sinks, replay)
        self._states = states

    def write_table(self, target: Target, batch: int, digest: str = "", series: str = "") -> list[TableProgress]:
        """Write a table's part of a batch, and return the progress per sink.

        ``digest``: digest of the part's offsets, if known; ``series``: from ``Target.split_by_series``.

        Handling unavailable values is expensive, and few tables have them. The first attempt only detects them; if it finds one,
        the part is written again with that handling, from then on for every batch of the table. The same applies to an update of a
        key that is rejected, for this batch only.
        """
        state, mark = self._states.of(target.name), f"{self._mark}/topic/{series}" if series else self._mark
        marks = BatchMarks(mark, batch, 0, digest, self._write)
        if state.has_unavailable is None:
            state.has_unavailable = self._had_unavailable(target)
        state.has_rejected_halves = False
        while True:
            try:
                return self._write_changes(target, state, marks)
            except Exception as error:
                if not state.has_unavailable and is_unavailable_value_error(error):
                    state.has_unavailable = True
                elif not state.has_rejected_halves and is_rejected_half_error(error):
                    state.has_rejected_halves = True
                else:
                    raise

    def _write_changes(self, target: Target, state: TableState, marks: BatchMarks) -> list[TableProgress]:
        started, batch = time.monotonic(), marks.batch
        balance = TransformCounter()
        incompatible: dict[str, str] = {}
        changes = self._read(target, state, balance, incompatible)
        digest = _add_revision(marks.digest, changes, target, state, incompatible)
        marks = replace(marks, epoch=self._checkpoint.epochs.of(batch, target.name), digest=digest)
        rule_key = target.sources[0][1].key
        table_plan = TablePlan.decide(self._plan, target.name, changes, marks, rule_key)
        if not table_plan.columns:
            return self._reject_all(target, table_plan, state, started)
        self._check_modes(table_plan, state)
        table_plan = self._begin_table(target, table_plan, state)
        origins = origin_aggregates(table_plan.marks.epoch, has_snapshots=table_plan.has_snapshots)
        is_given_tombstones = table_plan.has_tombstones or table_plan.keeps_tombstones
        # The end of a snapshot may be a tombstone: the last row of a transform that made no row of it.
        is_counted = is_given_tombstones or table_plan.has_snapshots
        changes = changes if is_counted else drop_tombstones(changes)
        counter = RowCounter(origins=origins if table_plan.upsert_sinks else None, has_tombstones=is_counted)
        removed: Mapping[Sink, Removed] = {}
        with ExitStack() as scope:
            counted = counter.count_arrivals(changes.frame)
            rows = accept_rows(counted if is_given_tombstones else drop_tombstone_rows(counted), table_plan)
            frames: dict[TableMode, DataFrame] = {}
            if "append" in table_plan.modes.values():
                frames["append"] = append_rows(rows, table_plan)
            if "changelog" in table_plan.modes.values():
                frames["changelog"] = changelog_rows(rows, table_plan)
            if table_plan.upsert_sinks:
                keyed, latest = scope.enter_context(self._upsert_rows(rows, table_plan, state, counter))
                frames |= keyed
            is_cached = not table_plan.is_read_once or balance.has_undeclared_filters
            is_cached = is_cached or self._views.is_needed(self._plan, target.name)
            if is_cached:
                scope.enter_context(cache_rows(frames))
                balance.count_filtered()  # Raises before anything is written.
            results, counts, readable = self._write_frames(
                table_plan, frames, state, counter, balance, is_cached=is_cached
            )
            if table_plan.remembers_deletes and counts.upsert_deletes != 0:
                state.deleted_keys.remember(frames["upsert"], table_plan.table.key, batch, counts.newest_ms)
            note = self._note_origins(changes, table_plan, state, counts, origins)
            rejected = self._reject(target, table_plan, state) if counts.errors != 0 else Rejected()
            if table_plan.has_tombstones and counts.tombstones != 0 and self._has_one_table(target):
                removed = remove_rows(select_tombstones(latest), table_plan, state, self._sinks, counts.newest_ms)
        removed = merge_removed(removed, remove_missing(target, table_plan, state, self._reader, self._sinks))
        state.expire(batch, counts.newest_ms, has_rows=bool(counts.rows_in))
        seconds = time.monotonic() - started
        return list_progress(self._plan, table_plan, results, counts, rejected, removed, readable, seconds, note)

    def _write_frames(
        self,
        table_plan: TablePlan,
        frames: dict[TableMode, DataFrame],
        state: TableState,
        counter: RowCounter,
        balance: TransformCounter,
        *,
        is_cached: bool,
    ) -> tuple[list[WriteResult], Counts, float]:
        """Write the rows to all sinks; return the results, the counts, and the time from which the rows can be read."""
        results = self._sinks.write(table_plan, frames, state)
        for made in filter(None, (table_plan, table_plan.history)):
            modes = {self._mode_key(sink): mode for sink, mode in made.modes.items()}
            self._states.of(made.table.name).modes.note(modes, made.table.key)
        if table_plan.feed_sinks:
            feed, kept = feed_table(table_plan.table), {self._mode_key(s): "upsert" for s in table_plan.feed_sinks}
            self._states.of(feed.name).modes.note(kept, feed.key)
        readable = time.time()
        was_read = is_cached or not all(result.skipped for result in results)
        counts = counter.collect(was_read=was_read)
        # Without counts from Spark, waiting for them again is useless.
        if was_read and counts.rows_in is not None:
            counts = counts.with_filtered(balance.count_filtered())
        return results, counts, readable

    @contextmanager
    def _upsert_rows(
        self, rows: DataFrame, table_plan: TablePlan, state: TableState, counter: RowCounter
    ) -> Iterator[tuple[dict[TableMode, DataFrame], DataFrame]]:
        """Return the rows to upsert, if a sink upserts, and all changes for a history; and the latest row of each key, or its tombstone.

        For a history alone, the rows are counted without deduplication, because nothing else needs it.
        """
        read_stored = partial(self._sinks.read_stored, table_plan.upsert_sinks[0], table_plan.table)
        rows = drop_before_truncate(keep_for_upsert(rows, table_plan), state)
        is_upserted = "upsert" in table_plan.modes.values()
        with (
            carry_values_to_new_keys(rows, table_plan, state, read_stored) as carried,
            share_with_history(carried if is_upserted else counter.count_upserts(carried), table_plan) as (
                shared,
                frames,
            ),
        ):
            if not is_upserted:
                yield frames, deduplicate(shared, table_plan)
                return
            latest = counter.count_upserts(deduplicate(shared, table_plan))
            with drop_late_after_delete(exclude_tombstones(latest, table_plan), table_plan, state) as upserts:
                yield {**frames, "upsert": upserts}, latest

    def _begin_table(self, target: Target, table_plan: TablePlan, state: TableState) -> TablePlan:
        """Record what must be known about a table before its first rows are written."""
        if not table_plan.upsert_sinks or state.sources.names:
            return table_plan
        if not state.sources.is_recorded:
            reject_versions(table_plan, self._sinks.session_of(target.name))
            check_hidden_columns(self._plan, target, table_plan, self._reader, self._sinks)
            table_plan = self._adopt_epoch(table_plan)
        self._note_first_source(target, table_plan, state)
        return table_plan

    def _adopt_epoch(self, table_plan: TablePlan) -> TablePlan:
        """Continue the epoch of stored rows in a new checkpoint. In a lower epoch, all changes would lose against these rows.

        Epochs that were raised before the first batch are counted from there.
        """
        from pyspark.sql import functions as F

        table, marks, epochs = table_plan.table, table_plan.marks, self._checkpoint.epochs
        if epochs.is_adopted(table.name, marks.batch, OLDER):  # A sink may have rows of a batch that is repeated.
            return table_plan
        stored = [self._sinks.read_stored(sink, table) for sink in table_plan.upsert_sinks]
        is_newer = F.col(POSITION).rlike(f"^{SORTABLE}") & (
            F.col(POSITION) >= epoch_text(marks.epoch + 1 - epochs.initial)
        )
        newer = [rows.where(is_newer) for rows in stored if rows is not None and POSITION in rows.columns]
        highest = [row[0] for rows in newer if (row := rows.agg(F.max(POSITION)).first()) and row[0]]
        if not highest:
            return table_plan
        epoch = epochs.adopt(read_epoch(max(highest)) + epochs.initial, marks.batch, OLDER, table.name)
        which = "a newer epoch" if epochs.initial else "this epoch too"
        note = f"{OLDER}: the changes are in {which} (epoch {epoch.number})"
        return replace(table_plan, marks=replace(marks, epoch=epoch.number), epoch_note=note)

    def _note_first_source(self, target: Target, table_plan: TablePlan, state: TableState) -> None:
        """Record the first source of a table before its rows are written, also in a repeated batch. Its positions have no tag."""
        is_unknown = not state.sources.is_recorded
        is_unknown = is_unknown and may_have_several(self._plan, self._checkpoint, target.name, target.topics)
        if is_unknown and self._sinks.read_stored(table_plan.upsert_sinks[0], table_plan.table) is not None:
            state.sources.add([EARLIER])
            return
        if (only := self._reader.only_source(target)) is not None:
            state.sources.add([only])
            return
        sources = self._read(target, state).frame.where(names_source())
        # Rows are preferred, because the source of a truncate may have no rows.
        first = sources.where(is_row()).select(SOURCE).first() or sources.select(SOURCE).first()
        if first is not None:
            state.sources.add([first[0]])

    def _note_origins(
        self,
        changes: Changes,
        table_plan: TablePlan,
        state: TableState,
        counts: Counts,
        aggregates: Mapping[str, Column],
    ) -> str | None:
        """Record the sources of the batch's rows, and the newest snapshot among them, after the rows were written.

        Return a note for the user if the table has several sources from this batch on.
        """
        if not table_plan.upsert_sinks:
            return None
        if counts.rows_in is None:  # The tables had the batch already, so the counts of its first run are unknown.
            (row,) = changes.frame.agg(*[column.alias(name) for name, column in aggregates.items()]).collect()
            counts = counts.with_origins(row.asDict())
        if table_plan.has_snapshots:
            state.snapshot.note(counts.snapshot, table_plan.marks.batch, table_plan.table.key)
        is_shared = state.sources.add(counts.sources)
        return f"{SHARED}: {escape_controls(', '.join(state.sources.names))}" if is_shared else None

    def _mode_key(self, sink: Sink) -> str:
        """Return the name by which the checkpoint records the mode of a sink: its place, if the plan has several of its plugin.

        Names depend on the order of the sinks.
        """
        has_others = sum(other.name == sink.name for other in self._plan.sinks) > 1
        return f"{sink.name} {sink.place() or self._plan.name_of(sink)}" if has_others else sink.name

    def _check_modes(self, table_plan: TablePlan, state: TableState) -> None:
        """Raise DataError if the table was created in another mode. One table would contain two kinds of rows."""
        for sink, now in table_plan.modes.items():
            was = state.modes.of(self._mode_key(sink))
            if was and now != was and self._sinks.read_stored(sink, table_plan.table) is not None:
                key = f"its events now have {'a' if table_plan.table.key else 'no'} key, which requires mode {now}"
                raise DataError(
                    f"was created in mode {was}, and {f'`mode: {now}` is set now' if sink.config.mode else key}",
                    where=f"table {table_plan.table.name}, sink {self._plan.name_of(sink)}",
                    fix=f"set `mode: {was}` for the sink to continue as before; for mode {now}, give the table "
                    "another `target:`, or remove it and use a new checkpoint",
                )

    def _reject_all(
        self, target: Target, table_plan: TablePlan, state: TableState, started: float
    ) -> list[TableProgress]:
        """Reject all records of events without columns. A truncate among them removes the rows of an earlier writer or checkpoint."""
        if table_plan.truncated_sinks and has_truncates(self._read(target, state, every_field=True)):
            self._check_modes(table_plan, state)
            table_plan = self._begin_table(target, table_plan, state)
        rejected = self._reject(target, table_plan, state)
        count = rejected.dead_letters + rejected.dropped
        results = [WriteResult() for _ in table_plan.writes]
        return list_progress(
            self._plan, table_plan, results, Counts(count, count), rejected, {}, time.time(), time.monotonic() - started
        )

    def _reject(self, target: Target, table_plan: TablePlan, state: TableState) -> Rejected:
        changes = self._read(target, state, every_field=True)
        rejected = self._rejects.handle(changes, table_plan, target.sources[0][0], state)
        if rejected.has_other_tables:
            for topic in target.topics:
                self._checkpoint.source_tables.note_mixed(topic)
        return rejected

    def _read(
        self,
        target: Target,
        state: TableState,
        balance: TransformCounter | None = None,
        incompatible: dict[str, str] | None = None,
        *,
        every_field: bool = False,
    ) -> Changes:
        session = self._sinks.session_of(target.name)

        def read(balance: TransformCounter | None = None, incompatible: dict[str, str] | None = None) -> Changes:
            changes = self._reader.read_target(
                session,
                target,
                has_unavailable=bool(state.has_unavailable),
                every_field=every_field,
                tombstones=self._plan.stores_tombstones
                or (self._plan.applies_tombstones(target.name) and self._has_one_table(target)),
                balance=balance,
                incompatible=incompatible,
            )
            return reject_unsupported(changes, target.name, self._plan.sinks, session)

        changes = read(balance, incompatible)
        if state.has_rejected_halves:
            return drop_other_halves(changes, read())
        return changes if every_field else fail_on_rejected_half(changes)

    def _has_one_table(self, target: Target) -> bool:
        """Return whether a table has had one topic only, and that topic this table only.

        Otherwise a tombstone does not identify its table.
        """
        topics = {*target.topics, *self._checkpoint.orders.topics}
        own = [topic for topic in topics if self._plan.routes.table_of(topic) == target.name]
        return len(own) == 1 and not self._checkpoint.source_tables.is_mixed(own[0])

    def _had_unavailable(self, target: Target) -> bool:
        """Return whether a stored row has had unavailable values: then a complete change may be late."""
        if not self._reader.may_leave_out(target):
            return False
        tables = [self._sinks.read_stored(s, Table(target.name)) for s in self._plan.sinks if s.capabilities.upsert]
        return any(stored is not None and not MARKS.isdisjoint(stored.columns) for stored in tables)


def _add_revision(
    digest: str, changes: Changes, target: Target, state: TableState, incompatible: Mapping[str, str]
) -> str:
    """Return the digest of a batch with the revision of the types by which records are rejected.

    A batch may be in the table although its dead letters are not saved. If it is repeated with other types, it has another mark, and
    its records are applied again: a record that was rejected and now fits would otherwise be neither a row nor a dead letter.
    """
    from pyspark.sql.types import StructType

    if not changes.event_columns:  # No record could be read.
        return digest
    schema = changes.frame.schema
    row = StructType([schema[name] for name in changes.event_columns if name not in incompatible])
    is_inferred = any(events.is_inferred for events, _ in target.sources)
    revision = state.types.note(row, incompatible, is_inferred=is_inferred)
    return digest_offsets([digest, revision]) if revision else digest
