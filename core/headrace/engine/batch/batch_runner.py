"""One batch over all tables: read, route, apply side by side, decide about failures, note the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.backlog import BacklogEntry
from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.policy import DeadLetterCounter
from headrace.engine.batch.catch_up import CatchUp
from headrace.engine.batch.credential_rotation import has_rotated_credentials
from headrace.engine.batch.failure_policy import error_that_stops
from headrace.engine.batch.maintainer import Maintainer
from headrace.engine.batch.order_watch import OrderWatch
from headrace.engine.batch.run_state import RunState
from headrace.engine.batch.table_pool import TableOutcome, TablePool
from headrace.engine.plan.error_translation import spark_stopped, translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Target, route
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.schema_replanning import until_schemas_known
from headrace.engine.read.seen_columns import SeenColumns
from headrace.engine.write.table_writer import TableWriter
from headrace.errors import ConfigError, HeadraceError, RuleError
from headrace.progress.model import BatchProgress, TableProgress
from headrace.sdk.events import Events
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.source import Offset, SourceContext
from headrace.spark.job_tags import cancel_jobs, tag_jobs
from headrace.spark.sessions import Sessions, is_stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Listener = Callable[[BatchProgress], None]


@dataclass(frozen=True)
class RoutedBatch:
    """A batch's events by the tables that they are for.

    ``unrouted``: topics that no rule names; ``notices``: topics that hold no rows → what they tell of the stream; ``metadata``:
    the events of these; ``notes``: table → what to say of it.
    """

    targets: tuple[Target, ...] = ()
    unrouted: tuple[str, ...] = ()
    notices: dict[str, str] = field(default_factory=dict)
    metadata: tuple[Events, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)


class BatchRunner:
    """Applies batches. The same batch id always brings the same records; applying it again changes nothing."""

    def __init__(
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        sessions: Sessions,
        listener: Listener,
        *,
        fail: Callable[[RuleError], None],
        names_checked: bool,
        maintainer: Maintainer,
        state: RunState | None = None,
    ) -> None:
        """``fail``: ends the run, when a table that is set aside meets what the file says a run stops for."""
        self._plan, self._checkpoint, self._listener, self._fail = plan, checkpoint, listener, fail
        self._names_checked, self._maintainer = names_checked, maintainer
        self._context = SourceContext(
            sessions.of("batch"),
            checkpoint.schemas,
            stream=checkpoint.stream,
            max_message_bytes=plan.settings.max_message_bytes,
        )
        self._reader, self._writer = ChangeReader(plan), TableWriter(plan, checkpoint, sessions)
        self._order_watch = OrderWatch(plan, checkpoint)
        self._state = state or RunState()
        self._state.note_outcomes((t.table for batch in checkpoint.progress.all() for t in batch.tables), ())
        self._dead_letters = DeadLetterCounter(plan.dead_letter_policy, plan.sinks[0].name)
        timeout = plan.settings.table_timeout_seconds
        self._pool = TablePool(lambda table: cancel_jobs(self._context.spark, plan.checkpoint, table), timeout)
        # Last: its threads begin at once.
        self.catch_up = CatchUp(checkpoint.backlog, self._apply_backlog_entry)

    def apply(self, frame: DataFrame, batch: int, span: tuple[Offset, Offset] | None = None) -> None:
        """Applies one batch; raises what stops the run, after every table had its turn. ``span``: a ranged source's."""
        started, clock = datetime.now(UTC), time.monotonic()
        context = replace(self._context, batch=batch, range=span)
        context.schemas.missing.clear()
        routed, outcomes = self._apply_tables(context, frame, batch)
        error = self._handle_failures(outcomes, routed.targets, context, batch)
        tables = self._with_lags(_with_notes(self._progress_of(outcomes), routed.notes), routed.targets, context)
        left_out = self._reader.count_records(context.spark, routed.metadata)
        self._record(batch, started, clock, tables, routed.unrouted, routed.notices, left_out)
        if error is not None:
            raise error
        self._dead_letters.add(tables)
        self._maintainer.note_batch(name for name, outcome in outcomes.items() if outcome.error is None)

    def _apply_tables(
        self, context: SourceContext, frame: DataFrame, batch: int
    ) -> tuple[RoutedBatch, dict[str, TableOutcome]]:
        """What came of every table; those that meet unknown writer schemas are planned again, they alone."""
        outcomes: dict[str, TableOutcome] = {}
        routed = RoutedBatch()

        def route_and_apply() -> None:
            nonlocal routed
            routed = self._route(context, frame, batch)
            rest = [t for t in routed.targets if t.name not in outcomes or outcomes[t.name].has_unknown_schema]
            outcomes.update(self._pool.apply(rest, lambda target: self._apply_table(target, context, batch)))
            unknown = [o.error for o in outcomes.values() if isinstance(o.error, UnknownSchemaError)]
            for error in unknown:  # each table's; the first is noted by whoever plans again
                context.schemas.note_unknown(error.schemas)
            if unknown:
                raise unknown[0]

        try:
            until_schemas_known(route_and_apply, context.schemas)
        except UnknownSchemaError:
            if not any(outcome.has_unknown_schema for outcome in outcomes.values()):
                raise  # else it is why a table failed
        return routed, outcomes

    def _route(self, context: SourceContext, frame: DataFrame, batch: int) -> RoutedBatch:
        try:
            events = self._reader.read_events(context, frame)
            notices = {e.topic: what for e in events if (what := self._plan.metadata_topic(e.topic, e.schema))}
            targets, unrouted = route([e for e in events if e.topic not in notices], self._plan.routes)
            self._check_names(batch, targets)
            notes = self._order_watch.check(context, targets, batch)
        except Exception as error:
            raise translate(error, self._plan) from error
        metadata = tuple(e for e in events if e.topic in notices)
        return RoutedBatch(tuple(targets), unrouted, notices, metadata, notes)

    def _apply_table(self, target: Target, context: SourceContext, batch: int) -> TableOutcome:
        """A table's part of the batch, or a note in its backlog when it is set aside. Raises nothing."""
        clock = time.monotonic()
        try:
            waits = self.catch_up.defer(target.name, batch, lambda: self._ranges_to_note(target, context))
            if waits is not None:
                return TableOutcome(self._progress_of_failure(target.name, waits, 0.0))
            with tag_jobs(self._context.spark, self._plan.checkpoint, target.name):
                return TableOutcome(tuple(self._apply_target(target, batch)))
        except Exception as raised:  # noqa: BLE001 - the other tables go on
            error = translate(raised, self._plan).at(f"table {target.name}")
            return TableOutcome(error=error, seconds=time.monotonic() - clock)

    def _apply_target(self, target: Target, batch: int) -> list[TableProgress]:
        with self._maintainer.hold(target.name):
            return self._writer.apply(target, batch)

    def _handle_failures(
        self, outcomes: dict[str, TableOutcome], targets: Sequence[Target], context: SourceContext, batch: int
    ) -> HeadraceError | None:
        """The error that stops the run; without one, tables that failed are set aside from now on."""
        errors = {name: outcome.error for name, outcome in outcomes.items() if outcome.error is not None}
        set_aside = self.catch_up.errors
        self._state.note_outcomes(outcomes, errors.keys() | set_aside.keys())
        if not errors:
            return None
        if is_stopped(context.spark):  # no fault of the tables
            return spark_stopped()
        # The batch is planned again, with what is another source by now.
        refused = next((e for e in errors.values() if self._has_rotated_credentials(e)), None)
        error = refused or error_that_stops(errors, set_aside, has_healthy_tables=self._state.has_healthy_tables)
        if error is not None:
            return error
        found = {t.name: self._replay_ranges(t, context) for t in targets if t.name in errors}
        ranges = {name: spans for name, spans in found.items() if spans is not None}
        if len(ranges) < len(errors):  # the source cannot read again
            return next(iter(errors.values()))
        for name, failure in errors.items():
            self.catch_up.set_aside(name, batch, ranges[name], failure, self._plan.redact(str(failure)))
        return None

    def _has_rotated_credentials(self, error: HeadraceError) -> bool:
        return has_rotated_credentials(self._plan, self._context.spark, error)

    def _replay_ranges(self, target: Target, context: SourceContext) -> dict[str, list[Any]] | None:
        """Where a table's records of a batch lie, to be read again; None when the source cannot."""
        ranges = self._plan.source.replay_range(context, target.topics)
        if ranges is None or not ranges.keys() >= set(target.topics):
            return None
        return {topic: [ranges[topic]] for topic in target.topics}

    def _ranges_to_note(self, target: Target, context: SourceContext) -> dict[str, list[Any]]:
        """What a backlog notes of a batch. An error when that is not known: the run stops, and the batch comes again."""
        ranges = self._replay_ranges(target, context)
        if ranges is None:
            raise ConfigError(
                "waits for what it missed, and its source does not say where this batch's records lie, to read them later",
                fix="mend the table, and start again: it gets what it missed, and then this batch",
            )
        return ranges

    def _apply_backlog_entry(self, table: str, entry: BacklogEntry) -> None:
        """Applies what a table missed. What goes wrong concerns the table alone, but for what the file says of all."""
        try:
            self._dead_letters.add(self._apply_missed(table, entry))
        except RuleError as error:
            self._fail(error)
            raise
        except Exception as raised:
            translated = translate(raised, self._plan)
            self._has_rotated_credentials(translated)  # then the next try is with these
            raise translated from raised

    def _apply_missed(self, table: str, entry: BacklogEntry) -> tuple[TableProgress, ...]:
        self._pool.check_free(table)
        started, clock = datetime.now(UTC), time.monotonic()
        context = replace(self._context, batch=entry.last, replay=entry.places)
        context.schemas.missing.clear()

        def read_and_apply() -> tuple[TableProgress, ...]:
            targets, _ = route(self._reader.read_replay(context), self._plan.routes)
            own = self._choose_targets(table, targets, entry)
            try:
                return tuple(progress for target in own for progress in self._apply_target(target, entry.last))
            except Exception as error:  # an unknown writer schema is told from others by its plugin
                raise translate(error, self._plan) from error

        tables = until_schemas_known(read_and_apply, context.schemas)
        self._state.note_caught_up(table)
        progress = self._batch_progress(entry.last, started, clock, tables)
        self._checkpoint.progress.amend(progress)
        self._listener(progress)
        return tables

    def _choose_targets(self, table: str, targets: Sequence[Target], entry: BacklogEntry) -> Sequence[Target]:
        """Of all tables that have changes in the topics of a backlog, those that it is the backlog of."""
        routes = [self._plan.routes.of(topic) for topic in entry.places]
        # By its own name a topic failed as a whole, before it was known which tables it has changes of.
        if any(found and found.table == table for found in routes):
            return targets
        return [target for target in targets if target.name == table] or targets

    def _progress_of(self, outcomes: dict[str, TableOutcome]) -> tuple[TableProgress, ...]:
        return tuple(
            progress
            for name, outcome in outcomes.items()
            for progress in (
                self._progress_of_failure(name, str(outcome.error), outcome.seconds)
                if outcome.error
                else outcome.progress
            )
        )

    def _progress_of_failure(self, table: str, why: str, seconds: float) -> tuple[TableProgress, ...]:
        text, seconds = self._plan.redact(why), round(seconds, 3)
        return tuple(TableProgress(table, sink.name, seconds=seconds, error=text) for sink in self._plan.sinks)

    def _with_lags(
        self, tables: tuple[TableProgress, ...], targets: Sequence[Target], context: SourceContext
    ) -> tuple[TableProgress, ...]:
        """The progress with what waits, in records or in time. Not worth a failure: a source that is away says so when it is read."""
        try:
            lags, times = self._plan.source.lag(context), self._plan.source.lag_ms(context)
        except Exception:  # noqa: BLE001
            return tables
        topics = {target.name: target.topics for target in targets}
        records = {name: sum(lags[topic] for topic in of) for name, of in topics.items() if lags.keys() >= set(of)}
        behind = {name: max(times[topic] for topic in of) for name, of in topics.items() if times.keys() >= set(of)}
        return tuple(replace(p, lag=records.get(p.table), lag_ms=behind.get(p.table)) for p in tables)

    def _record(
        self, batch: int, started: datetime, clock: float, tables: tuple[TableProgress, ...], *others: Any
    ) -> None:
        progress = self._batch_progress(batch, started, clock, tables, *others)
        self._checkpoint.progress.add(progress)
        self._listener(progress)

    def _batch_progress(
        self, batch: int, started: datetime, clock: float, tables: tuple[TableProgress, ...], *others: Any
    ) -> BatchProgress:
        began, seconds = started.isoformat(timespec="milliseconds"), round(time.monotonic() - clock, 3)
        return BatchProgress(self._plan.name, batch, began, seconds, tables, *others)

    def _check_names(self, batch: int, targets: Sequence[Target]) -> None:
        """On the very first batch: a source that could not show its columns before the start shows them here."""
        if self._names_checked or batch or not targets:
            return
        seen = SeenColumns()
        try:
            for target in targets:
                for events, topic_route in target.sources:
                    if not events.schema.fields:  # of which only dead letters were seen
                        return
                    self._reader.read_changes(self._context.spark, events, topic_route, seen=seen)
        except HeadraceError:  # that table says so itself, and its columns are not known
            return
        seen.check_names()
        self._names_checked = True


def _with_notes(tables: tuple[TableProgress, ...], notes: dict[str, str]) -> tuple[TableProgress, ...]:
    return tuple(replace(table, note=notes.get(table.table, table.note)) for table in tables)
