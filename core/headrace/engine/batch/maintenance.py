"""Maintenance of tables: steps that are due, and sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.checkpoint.progress_log import ProgressLog
from headrace.checkpoint.view_queue import ViewQueue
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import retry
from headrace.errors import ConfigError, RetriableError
from headrace.progress.maintained import Maintained
from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep, TableSize
from headrace.sdk.sink import Sink, Table
from headrace.spark.sessions import Sessions
from headrace.suggestions import did_you_mean
from headrace.upsert.table_state import TableStates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.checkpoint.layout import CheckpointFolders


Report = Callable[[Maintained], None]


class SteadyClock:
    """Clock in seconds since 1970 that never runs ahead of the elapsed time.

    A jump of the system clock makes nothing old.
    """

    def __init__(self, clock: Callable[[], float] = time.time, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._elapsed = clock, elapsed
        self._start = clock() - elapsed()

    def __call__(self) -> float:
        return min(self._clock(), self._start + self._elapsed())


@dataclass(frozen=True)
class MeasuredTable:
    """Table of a pipeline in one sink, and its size."""

    table: str
    sink: str
    size: TableSize


def find_tables(plan: Plan, checkpoint: CheckpointFolders) -> list[str]:
    """Return the tables that a pipeline has written, from its checkpoint, and its table of dead letters."""
    progress = {table.table for batch in ProgressLog(checkpoint.batch_progress).all() for table in batch.tables}
    dead_letters = {plan.dead_letter_table.table_name} if plan.dead_letter_table else set()
    queue = ViewQueue(checkpoint.views)
    views = {view.name for view in plan.views if queue.state(view.name).digest}
    return sorted(progress | TableStates(checkpoint).names() | dead_letters | views)


def measure(plan: Plan, spark: SparkSession, tables: Iterable[str]) -> Iterator[MeasuredTable]:
    """Return the size of each table in each sink, except tables that a sink does not have or cannot measure."""
    session = Sessions(spark, plan.sql_conf).of("maintenance")
    for table in tables:
        for sink in plan.for_table(table).sinks_of(table):
            try:
                size = sink.measure_table(session, Table(table))
            except Exception as error:
                raise translate(error, plan, sink) from error
            if size is not None:
                yield MeasuredTable(table, plan.name_of(sink), size)


def choose_tables(named: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return the named tables, or all. ConfigError for a table that the pipeline has not written."""
    for table in named:
        if table not in known:
            raise ConfigError(f"table was never written: {table}", fix=did_you_mean(table, known))
    return named or known


def maintain(plan: Plan, spark: SparkSession, tables: Iterable[str], *, dry_run: bool) -> Iterator[Maintained]:
    """Run the steps that are due for tables; ``dry_run``: only list them. A failed step is an item with its error."""
    session = Sessions(spark, plan.sql_conf).of("maintenance")
    clock = SteadyClock()
    for table in tables:
        table_plan = plan.for_table(table)
        policy = replace(table_plan.settings.maintenance.policy, files=2, clock=clock)
        for sink in table_plan.sinks_of(table):
            yield from maintain_table(table_plan, session, Table(table), sink, policy, dry_run=dry_run)


def maintain_table(
    plan: Plan,
    session: SparkSession,
    table: Table,
    sink: Sink,
    policy: MaintenancePolicy,
    *,
    hold: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    dry_run: bool = False,
) -> Iterator[Maintained]:
    """Run the steps that are due for a table in one sink. ``hold``: excludes batches while an exclusive step runs.

    The steps after a failed step run as well: another program may reject each of our compactions.
    """
    name = plan.name_of(sink)
    try:
        for step in sink.plan_maintenance(session, table, policy):
            due = Maintained(table.name, name, step.name, step.what)
            yield due if dry_run else _run_step(plan, sink, due, step, hold)
    except Exception as raised:  # noqa: BLE001 - the batches and the other tables continue
        yield Maintained(table.name, name, "check", "", error=_describe(raised, plan, sink))


def _run_step(
    plan: Plan, sink: Sink, due: Maintained, step: MaintenanceStep, hold: Callable[[str], AbstractContextManager[None]]
) -> Maintained:
    try:
        with hold(due.table) if step.exclusive else nullcontext():
            started = time.monotonic()
            outcome = retry(step.run, lambda raised: translate(raised, plan, sink))
        return replace(due, outcome=outcome, seconds=time.monotonic() - started)
    except Exception as raised:  # noqa: BLE001 - the batches, the other steps and the other tables continue
        return replace(due, error=_describe(raised, plan, sink))


def _describe(raised: Exception, plan: Plan, sink: Sink) -> str:
    error = translate(raised, plan, sink)
    # The fix of a RetriableError is for writes. Maintenance is repeated later anyway.
    return plan.redact(error.what if isinstance(error, RetriableError) else str(error))
