"""One batch: route → decode → transform → one change per key → write all tables side by side → dead letters → mark.

A table that fails alone is put behind (headrace.engine.catch_up), and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.backlog import Part
from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.policy import Tally
from headrace.engine.catch_up import Behind
from headrace.engine.error_translation import translate
from headrace.engine.plan import Plan, SeenColumns
from headrace.engine.routing import Route, Routes
from headrace.engine.table import TableWriter, Target
from headrace.errors import HeadraceError, RetriableError, RuleError
from headrace.progress.model import BatchProgress, TableProgress
from headrace.sdk.events import Events
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.source import Offset, SourceContext
from headrace.spark.job_tags import cancel_jobs, tag_jobs
from headrace.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Writes of one batch that run at the same time.
PARALLEL = 8
#: Plans of one batch, each with the writer schemas that the one before met and did not know.
REPLANS = 20

Listener = Callable[[BatchProgress], None]
_Outcome = tuple[list[TableProgress], HeadraceError | None]


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
    ) -> None:
        """``fail``: ends the run, when a table that is behind meets what the file says a run stops for."""
        self._plan, self._checkpoint, self._sessions, self._listener = plan, checkpoint, sessions, listener
        self._context = SourceContext(sessions.of("batch"), checkpoint.schemas, stream=checkpoint.stream)
        self._write = TableWriter(plan, checkpoint, sessions)
        self._fail, self._names_checked = fail, names_checked
        #: Tables that were written when they last had something, as far as it is known.
        self._well = {t.table for batch in checkpoint.progress.all() for t in batch.tables}
        self._tally = Tally(plan.rules, plan.sinks[0].name)
        #: When a table's write began, and those that were not waited for.
        self._began: dict[str, float] = {}
        self._hung: dict[str, Future[_Outcome]] = {}
        self.behind = Behind(checkpoint.folder.folder("behind"), self._catch_up)

    def __call__(self, frame: DataFrame, batch_id: int, span: tuple[Offset, Offset] | None = None) -> None:
        """Applies one batch; raises what stops the run, after every table had its turn. ``span``: a ranged source's."""
        started, clock = datetime.now(UTC), time.monotonic()
        context = replace(self._context, batch=batch_id, range=span)
        context.schemas.missing.clear()
        targets, unrouted, notices = self._planned(context, frame)
        outcomes = self._outcomes(targets, context)
        for _ in range(REPLANS):
            again = {name for name, (_, error) in outcomes.items() if isinstance(error, UnknownSchemaError)}
            if not again:
                break
            targets, *_ = self._planned(context, frame)
            outcomes.update(self._outcomes([target for target in targets if target.name in again], context))
        errors = {name: error for name, (_, error) in outcomes.items() if error}
        stops = self._stops(errors, targets, context)
        lags = self._lags(context, targets)
        tables = tuple(replace(p, lag=lags.get(p.table)) for progresses, _ in outcomes.values() for p in progresses)
        progress = self._progress(batch_id, started, clock, tables, unrouted, notices)
        self._checkpoint.progress.add(progress)
        self._listener(progress)
        if stops:
            raise next((e for e in errors.values() if isinstance(e, RuleError)), None) or next(iter(errors.values()))
        self._tally.add(tables)

    def _progress(
        self, batch: int, started: datetime, clock: float, tables: tuple[TableProgress, ...], *others: Any
    ) -> BatchProgress:
        began, seconds = started.isoformat(timespec="milliseconds"), round(time.monotonic() - clock, 3)
        return BatchProgress(self._plan.name, batch, began, seconds, tables, *others)

    def _planned(
        self, context: SourceContext, frame: DataFrame
    ) -> tuple[list[Target], tuple[str, ...], dict[str, str]]:
        try:
            found = self._plan.events(context, frame)
            notices = {events.topic: about for events in found if (about := self._plan.metadata_topic(events))}
            targets, unrouted = targets_of(
                [events for events in found if events.topic not in notices], self._plan.routes
            )
            self._check_names(context, targets)
        except Exception as error:
            raise translate(error, self._plan) from error
        return targets, unrouted, notices

    def _outcomes(self, targets: list[Target], context: SourceContext) -> dict[str, _Outcome]:
        """What came of each table, all of them written side by side."""
        pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="headrace-table")
        running = [(target, pool.submit(self._attempt, target, context)) for target in targets]
        pool.shutdown(wait=False)
        return {target.name: self._in_time(target, future) for target, future in running}

    def _in_time(self, target: Target, running: Future[_Outcome]) -> _Outcome:
        """What came of a table; one that takes too long is left alone."""
        while True:
            try:
                return running.result(timeout=1.0)
            except TimeoutError:
                began = self._began.get(target.name)
                if began is None or time.monotonic() - began < self._plan.table_timeout:
                    continue
            self._hung[target.name] = running
            cancel_jobs(self._context.spark, target.name)
            error = RetriableError(
                f"was not written within {self._plan.table_timeout:g} seconds",
                where=f"table {target.name}",
                fix="look what its sink waits for; a longer `table.timeout` gives it more time",
            )
            return self._failed(target, error, self._plan.table_timeout), error

    def _stops(self, errors: Mapping[str, HeadraceError], targets: list[Target], context: SourceContext) -> bool:
        """Whether tables that failed end the run; else they are behind from now on, and the others go on."""
        self._well = (self._well | {target.name for target in targets}) - errors.keys() - self.behind.errors.keys()
        if not errors:
            return False
        if any(isinstance(error, RuleError) for error in errors.values()) or errors.keys() & self.behind.errors.keys():
            return True  # of a table that is behind already, what came could not be written down
        if not self._well and not all(isinstance(error, RetriableError) for error in errors.values()):
            return True
        places = {target.name: self._places(target, context) for target in targets if target.name in errors}
        if None in places.values():
            return True
        for name, error in errors.items():
            self.behind.begin(name, context.batch or 0, places[name] or {}, error, self._plan.redact(str(error)))
        return False

    def _places(self, target: Target, context: SourceContext) -> dict[str, list[Any]] | None:
        """Where a table's records of a batch lie, to be read again."""
        found = self._plan.source.replay_range(context, [events.topic for events, _ in target.sources])
        return None if found is None else {topic: [place] for topic, place in found.items()}

    def _catch_up(self, table: str, part: Part) -> None:
        """Applies what a table missed. What goes wrong concerns the table alone, but for what the file says of all."""
        try:
            self._tally.add(self._caught_up(table, part))
        except RuleError as error:
            self._fail(error)
            raise
        except Exception as error:
            raise translate(error, self._plan) from error

    def _caught_up(self, table: str, part: Part) -> tuple[TableProgress, ...]:
        if table in self._hung and not self._hung[table].done():
            raise RetriableError("its last write has not ended yet", where=f"table {table}")
        started, clock = datetime.now(UTC), time.monotonic()
        context = replace(self._context, batch=part.last, replay=part.places)
        context.schemas.missing.clear()
        for left in reversed(range(REPLANS)):
            try:
                targets, _ = targets_of(self._plan.events_of_replay(context), self._plan.routes)
                tables = [progress for target in targets for progress in self._write(target, part.last)]
                break
            except UnknownSchemaError:
                if not left:
                    raise
        self._well.add(table)
        progress = self._progress(part.last, started, clock, tuple(tables))
        self._checkpoint.progress.amend(progress)
        self._listener(progress)
        return progress.tables

    def _lags(self, context: SourceContext, targets: list[Target]) -> dict[str, int]:
        """Table → records that wait for it. Not worth a failure: a source that is away says so when it is read."""
        try:
            topics = self._plan.source.lag(context)
        except Exception:  # noqa: BLE001
            return {}
        found = {t.name: [topics.get(events.topic) for events, _ in t.sources] for t in targets}
        return {name: sum(lag or 0 for lag in lags) for name, lags in found.items() if None not in lags}

    def _attempt(self, target: Target, context: SourceContext) -> _Outcome:
        self._began[target.name] = clock = time.monotonic()
        batch = context.batch or 0
        try:
            held = self.behind.holds(target.name, batch, lambda: self._places(target, context) or {})
            if held:
                return self._failed(target, held, 0), None
            with tag_jobs(self._context.spark, target.name):
                return self._write(target, batch), None
        except Exception as raised:  # noqa: BLE001 - the other tables go on
            error = translate(raised, self._plan)
            error.where = error.where or f"table {target.name}"
            return self._failed(target, error, time.monotonic() - clock), error

    def _failed(self, target: Target, error: HeadraceError | str, seconds: float) -> list[TableProgress]:
        text, took = self._plan.redact(str(error)), round(seconds, 3)
        return [
            TableProgress(target.name, sink.name, None, None, None, 0, None, None, None, took, error=text)
            for sink in self._plan.sinks
        ]

    def _check_names(self, context: SourceContext, targets: list[Target]) -> None:
        """On the very first batch: a source that could not show its columns before the start shows them here."""
        if self._names_checked or context.batch or not targets:
            return
        seen: SeenColumns = {}
        try:
            for target in targets:
                for events, route in target.sources:
                    self._plan.changes(self._context.spark, events, route, seen=seen)
        except HeadraceError:  # that table says so itself, and its columns are not known
            return
        self._plan.check_names(seen)
        self._names_checked = True


def targets_of(events: Sequence[Events], routes: Routes) -> tuple[list[Target], tuple[str, ...]]:
    """The tables that events are for, all topics of one together, and the topics that no rule names."""
    by_table: dict[str, list[tuple[Events, Route]]] = {}
    unrouted = []
    for item in events:
        route = routes.of(item.topic)
        if route is None:
            unrouted.append(item.topic)
        else:
            by_table.setdefault(route.table, []).append((item, route))
    return [Target(name, tuple(sources)) for name, sources in by_table.items()], tuple(unrouted)
