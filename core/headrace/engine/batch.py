"""One batch: route → decode → transform → one change per key → write all tables side by side → dead letters → mark."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.contracts.events import Events
from headrace.contracts.format import UnknownSchemaError
from headrace.contracts.source import SourceContext
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.plan import Plan, SeenColumns
from headrace.engine.progress import BatchProgress, TableProgress
from headrace.engine.routing import Route
from headrace.engine.table import TableWriter, Target
from headrace.engine.trouble import explained
from headrace.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Writes of one batch that run at the same time.
PARALLEL = 8
#: Plans of one batch, each with the writer schemas that the one before met and did not know.
REPLANS = 20

Listener = Callable[[BatchProgress], None]
_Outcome = tuple[list[TableProgress], Exception | None]


class BatchRunner:
    """Applies batches. The same batch id always brings the same records; applying it again changes nothing."""

    def __init__(
        self, plan: Plan, checkpoint: Checkpoint, sessions: Sessions, listener: Listener, *, names_checked: bool
    ) -> None:
        self._plan, self._checkpoint, self._sessions, self._listener = plan, checkpoint, sessions, listener
        self._context = SourceContext(sessions.of("batch"), checkpoint.schemas, stream=checkpoint.stream)
        self._write = TableWriter(plan, checkpoint, sessions)
        self._names_checked = names_checked

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Applies one batch; raises what stops the run, after every table had its turn."""
        started, clock = datetime.now(UTC), time.monotonic()
        targets, unrouted, notices = self._planned(frame, batch_id)
        outcomes = self._outcomes(targets, batch_id)
        for _ in range(REPLANS):
            again = {name for name, (_, error) in outcomes.items() if isinstance(error, UnknownSchemaError)}
            if not again:
                break
            targets, *_ = self._planned(frame, batch_id)
            outcomes.update(self._outcomes([target for target in targets if target.name in again], batch_id))
        lags = self._lags(targets, batch_id)
        tables = tuple(replace(p, lag=lags.get(p.table)) for progresses, _ in outcomes.values() for p in progresses)
        progress = BatchProgress(
            self._plan.name,
            batch_id,
            started.isoformat(timespec="milliseconds"),
            round(time.monotonic() - clock, 3),
            tables,
            unrouted,
            notices,
        )
        self._checkpoint.progress.add(progress)
        self._listener(progress)
        errors = [error for _, error in outcomes.values() if error]
        if errors:
            raise errors[0]

    def _planned(self, frame: DataFrame, batch_id: int) -> tuple[list[Target], tuple[str, ...], dict[str, str]]:
        try:
            found = self._plan.events(replace(self._context, batch=batch_id), frame)
            notices = {events.topic: about for events in found if (about := self._plan.about(events))}
            targets, unrouted = self._targets([events for events in found if events.topic not in notices])
            self._check_names(targets, batch_id)
        except Exception as error:
            raise explained(error, self._plan) from error
        return targets, unrouted, notices

    def _outcomes(self, targets: list[Target], batch_id: int) -> dict[str, _Outcome]:
        """What came of each table, all of them written side by side."""
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="headrace-table") as pool:
            found = pool.map(lambda target: self._attempt(target, batch_id), targets)
            return {target.name: outcome for target, outcome in zip(targets, found, strict=True)}

    def _lags(self, targets: list[Target], batch_id: int) -> dict[str, int]:
        """Table → records that wait for it. Not worth a failure: a source that is away says so when it is read."""
        try:
            topics = self._plan.source.lag(replace(self._context, batch=batch_id))
        except Exception:  # noqa: BLE001
            return {}
        found = {t.name: [topics.get(events.topic) for events, _ in t.sources] for t in targets}
        return {name: sum(lag or 0 for lag in lags) for name, lags in found.items() if None not in lags}

    def _targets(self, events: list[Events]) -> tuple[list[Target], tuple[str, ...]]:
        by_table: dict[str, list[tuple[Events, Route]]] = {}
        unrouted = []
        for item in events:
            route = self._plan.routes.of(item.topic)
            if route is None:
                unrouted.append(item.topic)
            else:
                by_table.setdefault(route.table, []).append((item, route))
        return [Target(name, tuple(sources)) for name, sources in by_table.items()], tuple(unrouted)

    def _attempt(self, target: Target, batch_id: int) -> _Outcome:
        clock = time.monotonic()
        try:
            return self._write(target, batch_id), None
        except Exception as raised:  # noqa: BLE001 - the other tables go on; the batch raises it at its end
            error = explained(raised, self._plan)
            error.where = error.where or f"table {target.name}"
            text = self._plan.redact(str(error))
            seconds = round(time.monotonic() - clock, 3)
            failed = [
                TableProgress(target.name, sink.name, None, None, None, 0, None, None, None, seconds, error=text)
                for sink in self._plan.sinks
            ]
            return failed, error

    def _check_names(self, targets: list[Target], batch_id: int) -> None:
        """On the very first batch: a source that could not show its columns before the start shows them here."""
        if self._names_checked or batch_id > 0 or not targets:
            return
        seen: SeenColumns = {}
        for target in targets:
            for events, route in target.sources:
                self._plan.changes(self._context.spark, events, route, seen=seen)
        self._plan.check_names(seen)
        self._names_checked = True
