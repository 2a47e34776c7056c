"""Processing of one batch: read it, route it to tables, write the tables in parallel, report the progress."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.backlog import BacklogEntry, ReplayRanges
from headrace.checkpoint.offset_log import digest_offsets
from headrace.engine.batch.backlogs import WaitingError
from headrace.engine.batch.batch_resources import BatchResources
from headrace.engine.batch.table_pool import TableOutcome
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Target, route
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.schema_replanning import until_schemas_known
from headrace.engine.read.seen_columns import SeenColumns
from headrace.engine.write.table_writer import TableWriter
from headrace.errors import ConfigError, HeadraceError, RuleError
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.step_clock import StepClock
from headrace.sdk.events import Events
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.source import Offset, SourceContext
from headrace.spark.job_tags import tag_jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RoutedBatch:
    """Events of a batch by target table.

    ``unrouted``: topics that no rule matches; ``notices``: topic without rows → its description; ``metadata``: the events of these
    topics; ``notes``: table → remark for its progress.
    """

    targets: tuple[Target, ...] = ()
    unrouted: tuple[str, ...] = ()
    notices: dict[str, str] = field(default_factory=dict)
    metadata: tuple[Events, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessedBatch:
    """Result of processing one batch."""

    context: SourceContext
    targets: tuple[Target, ...]
    outcomes: Mapping[str, TableOutcome]
    progress: BatchProgress

    @property
    def errors(self) -> dict[str, HeadraceError]:
        """Table → why it failed."""
        return {name: outcome.error for name, outcome in self.outcomes.items() if outcome.error is not None}


class BatchProcessor:
    """Processor of one batch with one plan. A batch id always has the same records; processing it again changes nothing."""

    def __init__(self, plan: Plan, resources: BatchResources) -> None:
        self._plan, self._resources, self._clock = plan, resources, StepClock()
        self._reader = ChangeReader(plan, inferred_columns=resources.checkpoint.inferred_columns)

    def process_batch(self, frame: DataFrame, batch: int, span: tuple[Offset, Offset] | None = None) -> ProcessedBatch:
        """Write a batch into its tables. Raises only errors of the whole batch. ``span``: range of a ranged source."""
        started, start = datetime.now(UTC), time.monotonic()
        context = replace(self._resources.context, batch=batch, range=span)
        self._begin_batch(context)
        self._resources.activity.begin()
        routed, outcomes = self._process_tables(context, frame, batch)
        with self._clock.measure("measure"):
            tables = self._with_lags(_with_notes(self._progress_of(outcomes), routed.notes), routed.targets, context)
        with self._clock.measure("views"):
            tables += self._resources.views.refresh(self._plan, self._resources.pool)
        with self._clock.measure("measure"):
            left_out = self._reader.count_records(context.spark, routed.metadata)
        others = routed.unrouted, routed.notices, left_out
        progress = self._batch_progress(batch, started, start, tables, *others)
        return ProcessedBatch(context, routed.targets, outcomes, progress)

    def process_backlog_entry(self, table: str, entry: BacklogEntry) -> BatchProgress:
        """Write the batches of a backlog entry into their table."""
        self._resources.pool.check_free(table)
        started, start = datetime.now(UTC), time.monotonic()
        context = replace(self._resources.context, batch=entry.last, replay=entry.ranges)
        self._begin_batch(context)

        def read_and_write() -> tuple[TableProgress, ...]:
            events = self._reader.read_replay(context)
            metadata = self._plan.find_metadata(events)  # It was unknown while the topic could not be read.
            targets, unrouted = route([e for e in events if e.topic not in metadata], self._plan.routes)
            if unrouted and not targets:
                raise _no_rule(table, unrouted[0])
            own_targets = self._choose_targets(table, targets, entry)
            try:
                notes = self._resources.order_watch.check(self._plan, context, own_targets, entry.last)
                tables = tuple(p for target in own_targets for p in self._write_entry(table, target, entry))
                return _with_notes(tables, notes)
            except Exception as error:  # Only the plugin recognizes an unknown writer schema.
                raise translate(error, self._plan) from error

        tables = until_schemas_known(read_and_write, context.schemas)
        if all(progress.table != table for progress in tables):
            # The backlog has the name of a topic whose tables were unknown. Without progress, it would count as failing.
            names = self._plan.for_table(table).sink_names.values()
            tables += tuple(TableProgress(table, name, rows_in=0, applied=0, late=0, superseded=0) for name in names)
        tables += self._resources.views.refresh(self._plan)
        return self._batch_progress(entry.last, started, start, tables)

    def refresh_views(self, batch: int) -> BatchProgress:
        """Bring the views up to date without a batch. ``batch``: the last one."""
        started, start = datetime.now(UTC), time.monotonic()
        return self._batch_progress(batch, started, start, self._resources.views.refresh(self._plan))

    def find_replay_ranges(self, target: Target, context: SourceContext) -> dict[str, list[Any]] | None:
        """Return the ranges of a table's records in a batch, to read them again; None if the source cannot read them again."""
        ranges = self._plan.source.replay_range(context, target.topics)
        if ranges is None or not ranges.keys() >= set(target.topics):
            return None
        return {topic: [ranges[topic]] for topic in target.topics}

    def _begin_batch(self, context: SourceContext) -> None:
        context.schemas.missing.clear()
        for transform in self._plan.transforms:
            transform.begin_batch()

    def _process_tables(
        self, context: SourceContext, frame: DataFrame, batch: int
    ) -> tuple[RoutedBatch, dict[str, TableOutcome]]:
        """Write every table. Only the tables with unknown writer schemas are planned again."""
        outcomes: dict[str, TableOutcome] = {}
        routed = RoutedBatch()

        def route_and_write() -> None:
            nonlocal routed
            with self._clock.measure("plan"):
                routed = self._route(context, frame, batch)
                ranges = self._describe_batch(context, routed.targets)
            remaining = [t for t in routed.targets if t.name not in outcomes or outcomes[t.name].has_unknown_schema]

            def process(target: Target) -> TableOutcome:
                return self._process_table(target, context, batch, ranges)

            with self._clock.measure("write"):
                outcomes.update(self._resources.pool.process(remaining, process))
            unknown = [o.error for o in outcomes.values() if isinstance(o.error, UnknownSchemaError)]
            for error in unknown:  # The caller notes only the schemas of the error that is raised below.
                context.schemas.note_unknown(error.schemas)
            if unknown:
                raise unknown[0]

        try:
            until_schemas_known(route_and_write, context.schemas)
        except UnknownSchemaError:
            if not any(outcome.has_unknown_schema for outcome in outcomes.values()):
                raise  # Any other error belongs to a table.
        return routed, outcomes

    def _describe_batch(self, context: SourceContext, targets: Sequence[Target]) -> dict[str, list[Any]]:
        """Return topic → ranges that the batch reads, in the form of a backlog; empty if they are unknown."""
        topics = [topic for target in targets for topic in target.topics]
        try:
            found = self._plan.source.describe_batch(context, topics) or {}
        except Exception as error:
            raise translate(error, self._plan) from error
        return {topic: [ranges] for topic, ranges in found.items()}

    def _process_table(
        self, target: Target, context: SourceContext, batch: int, ranges: Mapping[str, list[Any]]
    ) -> TableOutcome:
        """Write a table, or add the batch to its backlog if it is set aside. Errors of the table are recorded, not raised."""
        start = time.monotonic()
        try:
            reason = self._resources.backlogs.defer(
                target.name, batch, lambda: self._backlog_ranges(target, context), is_whole=target.is_whole
            )
            if reason is not None:
                return TableOutcome(self._progress_of_failure(target.name, reason, 0.0))
            with tag_jobs(self._resources.session, self._plan.checkpoint, target.name):
                return TableOutcome(tuple(self._write_table(target, batch, ranges)))
        except Exception as raised:  # noqa: BLE001 - the other tables continue
            error = translate(raised, self._plan).at(f"table {target.name}")
            return TableOutcome(error=error, seconds=time.monotonic() - start)

    def _write_table(self, target: Target, batch: int, ranges: Mapping[str, list[Any]]) -> Sequence[TableProgress]:
        """Write each series of a table. ``ranges``: topic → ranges of the batch, empty if they are unknown."""
        plan, resources, parts = self._plan.for_table(target.name), self._resources, {"": target}
        if ranges.keys() >= set(target.topics):  # Otherwise no topic can be applied later than the others.
            parts = target.split_by_series()
        writer = TableWriter(
            plan,
            resources.checkpoint,
            resources.sessions,
            resources.states,
            resources.views.capture,
            lineage=resources.lineage,
        )
        with resources.locks.hold(target.name):
            if len(parts) > 1:  # Raises before anything is written if the topics do not fit together.
                reader = ChangeReader(plan, inferred_columns=resources.checkpoint.inferred_columns)
                reader.read_target(resources.session, target, has_unavailable=True)
            written = [writer.write_table(p, batch, _digest(p, ranges), series) for series, p in parts.items()]
        return [reduce(TableProgress.join, progress) for progress in zip(*written, strict=True)]

    def _route(self, context: SourceContext, frame: DataFrame, batch: int) -> RoutedBatch:
        try:
            events = self._reader.read_events(context, frame, waiting=self._resources.backlogs.whole_topics)
            notices = self._plan.find_metadata(events)
            targets, unrouted = route([e for e in events if e.topic not in notices], self._plan.routes)
            self._check_names(batch, targets)
            notes = self._resources.order_watch.check(self._plan, context, targets, batch)
        except Exception as error:
            raise translate(error, self._plan) from error
        metadata = tuple(e for e in events if e.topic in notices)
        return RoutedBatch(tuple(targets), unrouted, notices, metadata, notes)

    def _backlog_ranges(self, target: Target, context: SourceContext) -> ReplayRanges:
        """Return the ranges for a backlog. ConfigError if they are unknown: the run stops, and the batch is repeated."""
        ranges = self.find_replay_ranges(target, context)
        if ranges is None:
            raise ConfigError(
                "waits for its backlog, and the source cannot read this batch's records again later",
                fix="repair the table and start again: its backlog is applied first, then this batch",
            )
        return ranges

    def _choose_targets(self, table: str, targets: Sequence[Target], entry: BacklogEntry) -> Sequence[Target]:
        """Return the tables that a backlog belongs to, of all tables with changes in its topics."""
        # A topic that failed before its tables were known is recorded under the topic's name.
        return targets if entry.is_whole else [target for target in targets if target.name == table] or targets

    def _write_entry(self, table: str, target: Target, entry: BacklogEntry) -> Sequence[TableProgress]:
        """Write a table of a backlog entry. If a topic failed as a whole, a table of it that fails alone is set aside."""
        if target.name == table or not entry.is_whole:
            return self._write_table(target, entry.last, entry.ranges)
        backlogs, ranges = self._resources.backlogs, {topic: entry.ranges[topic] for topic in target.topics}
        if backlogs.has_later(target.name, entry.last):  # of another topic
            raise WaitingError(f"table {target.name} has later batches in a backlog of its own", where=f"table {table}")
        # If this entry is repeated, the table recognizes it by its mark only.
        reason = backlogs.defer(target.name, entry.last, lambda: ranges, stays_alone=True)
        if reason is not None:
            return self._progress_of_failure(target.name, reason, 0.0)
        try:
            return self._write_table(target, entry.last, entry.ranges)
        except Exception as raised:
            error = translate(raised, self._plan).at(f"table {target.name}")
            if isinstance(error, UnknownSchemaError | RuleError):
                raise error from raised
            backlogs.set_aside(target.name, entry.last, ranges, error, self._plan.redact(str(error)))
            return self._progress_of_failure(target.name, str(error), 0.0)

    def _progress_of(self, outcomes: Mapping[str, TableOutcome]) -> tuple[TableProgress, ...]:
        return tuple(
            progress
            for name, outcome in outcomes.items()
            for progress in (
                self._progress_of_failure(name, str(outcome.error), outcome.seconds)
                if outcome.error
                else outcome.progress
            )
        )

    def _progress_of_failure(self, table: str, reason: str, seconds: float) -> tuple[TableProgress, ...]:
        text, seconds = self._plan.redact(reason), round(seconds, 3)
        names = self._plan.for_table(table).sink_names.values()
        return tuple(TableProgress(table, name, seconds=seconds, error=text) for name in names)

    def _with_lags(
        self, tables: tuple[TableProgress, ...], targets: Sequence[Target], context: SourceContext
    ) -> tuple[TableProgress, ...]:
        """Add the lag in records or in time. An error is ignored: the next read of the source reports it."""
        try:
            records, milliseconds = dict(self._plan.source.lag(context)), dict(self._plan.source.lag_ms(context))
        except Exception:  # noqa: BLE001
            return tables
        topics = {target.name: target.topics for target in targets}
        lags = {name: sum(records[t] for t in own) for name, own in topics.items() if records.keys() >= set(own)}
        lags_ms = {
            name: max(milliseconds[t] for t in own) for name, own in topics.items() if milliseconds.keys() >= set(own)
        }
        return tuple(replace(p, lag=lags.get(p.table), lag_ms=lags_ms.get(p.table)) for p in tables)

    def _batch_progress(
        self, batch: int, started: datetime, start: float, tables: tuple[TableProgress, ...], *others: Any
    ) -> BatchProgress:
        """Return the progress. ``started`` and ``start``: the same time, from the wall clock and from the monotonic clock."""
        seconds = round(time.monotonic() - start, 3)
        time_text = started.isoformat(timespec="milliseconds")
        progress = BatchProgress(self._plan.name, batch, time_text, seconds, tables, *others)
        return replace(progress, steps=self._clock.seconds)

    def _check_names(self, batch: int, targets: Sequence[Target]) -> None:
        """Check on the first batch that the columns of transforms exist, if the source could not provide its columns earlier."""
        if self._resources.names_checked or batch or not targets:
            return
        seen = SeenColumns()
        try:
            for target in targets:
                for events, topic_route in target.sources:
                    changes = self._reader.read_changes(self._resources.session, events, topic_route, seen=seen)
                    if not changes.event_columns:  # Only rejected records: the columns are unknown.
                        return
        except HeadraceError:  # The table reports the error.
            return
        seen.check_names()
        self._resources.names_checked = True


def _no_rule(table: str, topic: str) -> ConfigError:
    return ConfigError(
        f"has a backlog of the topic {topic!r}, and no rule of `tables:` matches the topic",
        where=f"table {table}",
        fix="add the rule that it had; or stop the run and delete the table's folder in `backlog/` of the checkpoint: the table then "
        "lacks these records",
    )


def _digest(target: Target, ranges: Mapping[str, list[Any]]) -> str:
    """Return the digest of a table's part of a batch, as in the table's backlog; empty if the ranges are unknown."""
    own = {topic: ranges[topic] for topic in target.topics if topic in ranges}
    return digest_offsets(own) if own.keys() >= set(target.topics) else ""


def _with_notes(tables: tuple[TableProgress, ...], notes: dict[str, str]) -> tuple[TableProgress, ...]:
    return tuple(replace(table, note=notes.get(table.table, table.note)) for table in tables)
