"""Batches of one run: process each, set failed tables aside, record the progress."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.backlog import BacklogEntry
from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.policy import DeadLetterCounter
from headrace.engine.batch.batch_processor import BatchProcessor, ProcessedBatch
from headrace.engine.batch.batch_resources import BatchResources
from headrace.engine.batch.lineage_report import LineageReport
from headrace.engine.plan.error_translation import spark_stopped, translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.run.catch_up import CatchUp
from headrace.engine.run.credential_rotation import has_rotated_credentials
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.failure_policy import find_fatal_error
from headrace.engine.run.maintainer import Maintainer
from headrace.engine.run.run_state import RunState
from headrace.errors import HeadraceError, RuleError
from headrace.progress.lineage import TableLineage
from headrace.progress.model import BatchProgress
from headrace.sdk.source import Offset
from headrace.spark.sessions import Sessions, is_stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Listener = Callable[[BatchProgress], None]


class BatchRunner:
    """Runner of batches with the current plan, and of the catch-up of tables that were set aside."""

    def __init__(
        self,
        current: CurrentPlan,
        checkpoint: Checkpoint,
        sessions: Sessions,
        on_progress: Listener,
        *,
        on_rule_error: Callable[[RuleError], None],
        names_checked: bool,
        maintainer: Maintainer,
        state: RunState | None = None,
    ) -> None:
        """``on_rule_error``: called when a table that catches up meets an error for which the file stops the run."""
        plan = current.plan
        self._current, self._checkpoint, self._maintainer = current, checkpoint, maintainer
        self._on_progress, self._on_rule_error = on_progress, on_rule_error
        self._resources = BatchResources(plan, checkpoint, sessions, maintainer.locks, names_checked=names_checked)
        self._lineage = LineageReport(self._resources.lineage) if self._resources.lineage else None
        self._state = state or RunState()
        views = {view.name for view in plan.views}
        tables = {table.table for batch in checkpoint.progress.all() for table in batch.tables}
        self._state.note_outcomes(tables - views, ())
        self._dead_letters = DeadLetterCounter(plan.dead_letter_policy)
        self.backlogs = self._resources.backlogs
        self.catch_up = CatchUp(self.backlogs, self._run_backlog_entry)

    @property
    def step(self) -> str:
        """Current step of the batch in progress."""
        return self._resources.activity.describe(list(self._current.plan.sink_names.values()))

    def describe_lineage(self) -> dict[str, TableLineage]:
        """Return table or view → its lineage, of those that the run has read so far."""
        return self._lineage.describe(self._current.plan) if self._lineage else {}

    def start(self) -> None:
        """Refresh views that an earlier run left behind, and start the catch-up of tables that it set aside."""
        plan = self._current.plan
        self._resources.views.clean(plan)
        progress = BatchProcessor(plan, self._resources).refresh_views(max(self._checkpoint.next_batch - 1, 0))
        # A view that waits for its tables is reported with the first batch.
        if any(view.note is None for view in progress.tables):
            self._checkpoint.progress.amend(progress)
            self._on_progress(progress)
        self.catch_up.start()

    def finish(self) -> HeadraceError | None:
        """Finish the catch-up; return the error of a table that still fails, or of a view."""
        return self.catch_up.finish() or next(iter(self._resources.views.errors.values()), None)

    def run_batch(self, frame: DataFrame, batch: int, span: tuple[Offset, Offset] | None = None) -> None:
        """Run one batch; raise the error that stops the run after every table was processed."""
        plan = self._current.plan
        processor = BatchProcessor(plan, self._resources)
        processed = processor.process_batch(frame, batch, span)
        error = self._handle_failures(plan, processor, processed)
        self._checkpoint.progress.add(processed.progress)
        self._on_progress(processed.progress)
        if error is not None:
            raise error
        self._dead_letters.add(processed.progress.tables)
        written = [name for name in processed.outcomes if name not in processed.errors]
        written += {t.table for t in processed.progress.tables if not t.error and t.table not in processed.outcomes}
        if plan.dead_letter_table and any(table.dead_letters for table in processed.progress.tables):
            written.append(plan.dead_letter_table.table.name)
        self._maintainer.note_batch(written)

    def _handle_failures(
        self, plan: Plan, processor: BatchProcessor, processed: ProcessedBatch
    ) -> HeadraceError | None:
        """Return the error that stops the run; without one, set the failed tables aside."""
        errors, set_aside = processed.errors, self.backlogs.errors
        self._state.note_outcomes(processed.outcomes, errors.keys() | set_aside.keys())
        if not errors:
            return None
        session = self._resources.session
        if is_stopped(session):
            return spark_stopped()
        # With other credentials the whole batch is repeated, because its source may have been rebuilt.
        rotate = partial(self._current.rotate_for_batch, plan, session)
        refused = next((e for e in errors.values() if has_rotated_credentials(rotate, e)), None)
        error = refused or find_fatal_error(errors, set_aside, has_healthy_tables=self._state.has_healthy_tables)
        if error is not None:
            return error
        failed = [target for target in processed.targets if target.name in errors]
        found = {target.name: processor.find_replay_ranges(target, processed.context) for target in failed}
        ranges = {name: spans for name, spans in found.items() if spans is not None}
        if len(ranges) < len(errors):  # The source cannot read them again.
            return next(iter(errors.values()))
        for name, failure in errors.items():
            text, is_whole = plan.redact(str(failure)), name in {target.name for target in failed if target.is_whole}
            self.backlogs.set_aside(name, processed.progress.batch, ranges[name], failure, text, is_whole=is_whole)
        self.catch_up.start(is_delayed=True)
        return None

    def _run_backlog_entry(self, table: str, entry: BacklogEntry) -> None:
        """Run a backlog entry. Its errors concern the table only, except those for which the file stops the run."""
        plan = self._current.plan
        try:
            progress = BatchProcessor(plan, self._resources).process_backlog_entry(table, entry)
            self.catch_up.start(is_delayed=True)  # A table of the entry may have failed alone.
            self._state.note_caught_up(table)
            self._checkpoint.progress.amend(progress)
            self._on_progress(progress)
            self._dead_letters.add(progress.tables)
        except RuleError as error:
            self._on_rule_error(error)
            raise
        except Exception as raised:
            translated = translate(raised, plan)
            rotate = partial(self._current.rotate, plan, self._resources.session)
            has_rotated_credentials(rotate, translated)  # for the next attempt, after a pause
            raise translated from raised
