"""Scheduling of table maintenance in a run: checks, locks and errors. Each test defines the steps of its sinks."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.memory_sink import MemorySink
from tests.support.record_log import LogRecord, RecordLog, append

from headrace import Pipeline
from headrace.config.maintenance_options import Maintenance
from headrace.config.settings import Settings
from headrace.engine.batch.maintenance import SteadyClock, maintain
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.maintainer import BATCHES_BETWEEN_CHECKS, Maintainer
from headrace.errors import FatalError, RetriableError
from headrace.progress.maintained import Maintained
from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep
from headrace.sdk.sink import Sink, Table
from headrace.spark.sessions import Sessions
from headrace_sources import FilesSource
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


#: Change event that inserts a row.
PERSON = {
    "before": None,
    "after": {"id": 1},
    "op": "c",
    "source": {"connector": "postgresql", "lsn": 1, "ts_ms": 1},
}


class MaintainedSink(MemorySink):
    """Sink that records which tables are checked, and returns the steps of a test."""

    name = "kept"

    def __init__(self, *steps: MaintenanceStep) -> None:
        super().__init__(store=uuid.uuid4().hex)
        self.steps, self.checks = steps, list[str]()
        self.checked = threading.Semaphore(0)

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        self.checks.append(table.name)
        yield from self.steps
        self.checked.release()


def step(run: Callable[[], str], *, exclusive: bool = False) -> MaintenanceStep:
    return MaintenanceStep("compact", "9 files", run, exclusive)


def fail(error: Exception) -> Callable[[], str]:
    def run() -> str:
        raise error

    return run


def plan_of(*sinks: Sink, enabled: bool = True) -> Plan:
    source = FilesSource(path="x", format="json")
    settings = Settings(maintenance=Maintenance(enabled=enabled))
    return Plan("shop", source, sinks, f"checkpoint-{uuid.uuid4().hex}", Routes([]), (), settings=settings)


class Run:
    """Maintenance of a run, with the reported steps."""

    def __init__(self, spark: SparkSession, *sinks: Sink, enabled: bool = True) -> None:
        self.reported: list[Maintained] = []
        self.maintainer = Maintainer(
            CurrentPlan(plan_of(*sinks, enabled=enabled)), Sessions(spark), self.reported.append
        )

    def write(self, *tables: str, batches: int = BATCHES_BETWEEN_CHECKS) -> None:
        for _ in range(batches):
            self.maintainer.note_batch(tables)


@pytest.mark.nightly
def test_table_of_dead_letters_is_checked_in_its_sink(spark: SparkSession, tmp_path: Path) -> None:
    def is_locked() -> str:
        table = pipeline.plan.dead_letter_table
        return "" if table is None else f"{sink.checks[-1]}: {table._lock.locked()}"

    topic, log = "shop.people", tmp_path / "log.jsonl"
    append(log, [LogRecord(topic, 0, {"id": 1}, PERSON), LogRecord(topic, 1, {"id": 2}, {**PERSON, "op": "x"})])
    sink, other = MaintainedSink(step(is_locked, exclusive=True)), MaintainedSink()
    other.name = "other"  # type: ignore[misc]  # to distinguish two sinks of the same class
    settings = Settings(dead_letters_table="ops.dead_letters")
    pipeline = Pipeline(
        "shop", RecordLog(path=str(log)), [sink, other], str(tmp_path / "c"), value=JsonFormat(), settings=settings
    )
    reported: list[Maintained] = []
    pipeline.start_available_now(spark, on_maintenance=reported.append).await_termination()
    assert (sink.checks, other.checks) == ([topic, "ops.dead_letters"], [topic])
    assert [done.outcome for done in reported] == [f"{topic}: False", "ops.dead_letters: True"]
    assert [due.table for due in pipeline.maintain(dry_run=True, spark=spark)] == ["ops.dead_letters", topic]


@pytest.mark.nightly
def test_error_of_the_callback_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    def fail_once(_: Maintained) -> None:
        raise KeyError("metrics")

    append(tmp_path / "log.jsonl", [LogRecord("shop.people", 0, {"id": 1}, PERSON)])
    source, sink = RecordLog(path=str(tmp_path / "log.jsonl")), MaintainedSink(step(lambda: "done"))
    pipeline = Pipeline("shop", source, [sink], str(tmp_path / "c"), value=JsonFormat())
    query = pipeline.start_available_now(spark, on_maintenance=fail_once)
    with pytest.raises(FatalError, match="on_maintenance raises KeyError: 'metrics'"):
        query.await_termination()


def test_table_is_checked_after_a_number_of_its_batches(spark: SparkSession) -> None:
    sink = MaintainedSink(step(lambda: "9 files into 1"))
    run = Run(spark, sink)
    run.write("shop.a", "shop.b", batches=BATCHES_BETWEEN_CHECKS - 1)
    run.write("shop.a", batches=1)
    assert sink.checked.acquire(timeout=30)
    run.maintainer.stop()
    assert sink.checks == ["shop.a"]
    assert [(done.table, done.sink, done.outcome) for done in run.reported] == [("shop.a", "kept", "9 files into 1")]
    assert str(run.reported[0]) == "shop.a → kept: compact: 9 files into 1, took 0.0 s"


def test_all_written_tables_are_checked_at_the_end(spark: SparkSession) -> None:
    sink = MaintainedSink()
    run = Run(spark, sink)
    run.write("shop.a", "shop.b", batches=1)
    run.maintainer.finish()
    run.maintainer.stop()
    assert sink.checks == ["shop.a", "shop.b"]


def test_no_table_is_checked_if_maintenance_is_disabled(spark: SparkSession) -> None:
    sink = MaintainedSink()
    run = Run(spark, sink, enabled=False)
    run.write("shop.a")
    run.maintainer.finish()
    assert sink.checks == []


@pytest.mark.parametrize("exclusive", [True, False])
def test_batch_waits_only_for_exclusive_steps(spark: SparkSession, exclusive: bool) -> None:
    running, can_finish, order = threading.Event(), threading.Event(), list[str]()

    def compact() -> str:
        running.set()
        assert can_finish.wait(30)
        order.append("step")
        return "done"

    run = Run(spark, MaintainedSink(step(compact, exclusive=exclusive)))

    def apply_batch(table: str) -> None:
        with run.maintainer.locks.hold(table):
            order.append(table)

    run.write("shop.a")
    assert running.wait(30)
    apply_batch("shop.b")
    batch = threading.Thread(target=apply_batch, args=("shop.a",))
    batch.start()
    batch.join(0.2 if exclusive else 30)
    can_finish.set()
    batch.join()
    run.maintainer.finish()
    assert order == (["shop.b", "step", "shop.a"] if exclusive else ["shop.b", "shop.a", "step"])


def test_failed_maintenance_pauses_only_its_own_table(spark: SparkSession) -> None:
    errors: list[Exception] = [PermissionError("no right to delete s3a://lake/x"), RetriableError("conflict")]
    sink, other = (
        MaintainedSink(step(lambda: fail(errors[0])() if sink.checks[-1] == "shop.a" else "done")),
        MaintainedSink(),
    )
    run = Run(spark, sink, other)
    run.write("shop.a")
    assert other.checked.acquire(timeout=30)
    time.sleep(0.5)  # four times as long as the check of the other table
    run.write("shop.a", "shop.b")
    run.maintainer.finish()
    assert (sink.checks, other.checks) == (["shop.a", "shop.b"], ["shop.a", "shop.a", "shop.b"])
    failed, done = run.reported
    assert "shop.a → kept: compact: " in str(failed)
    assert "no right to delete s3a://lake/x" in str(failed)
    assert (done.table, done.error) == ("shop.b", None)


def test_duration_of_checks_extends_the_pause_of_a_table(spark: SparkSession) -> None:
    class SlowCheck(MaintainedSink):
        def plan_maintenance(
            self, spark: SparkSession, table: Table, policy: MaintenancePolicy
        ) -> Iterator[MaintenanceStep]:
            time.sleep(2)  # although no step is due
            yield from super().plan_maintenance(spark, table, policy)

    sink = SlowCheck()
    run = Run(spark, sink)
    run.write("shop.a")
    assert sink.checked.acquire(timeout=30)
    run.write("shop.a")
    run.maintainer.finish()
    assert sink.checks == ["shop.a"]


def test_forward_jump_of_the_clock_is_ignored(spark: SparkSession) -> None:
    wall, elapsed = [1000.0], [50.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    elapsed[0] += 10
    assert clock() == 1000.0
    wall[0] = 1010.0
    assert clock() == 1010.0
    wall[0] = 1e9
    assert clock() == 1010.0
    wall[0] = 400.0
    assert clock() == 400.0


def test_step_with_a_write_conflict_is_retried(spark: SparkSession) -> None:
    outcomes = iter([RetriableError("another writer committed"), None])

    def compact() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "done"

    sink = MaintainedSink(step(compact))
    (done,) = maintain(plan_of(sink), spark, ["shop.a"], dry_run=False)
    assert (done.outcome, done.error) == ("done", None)


def test_steps_after_a_failed_step_run(spark: SparkSession) -> None:
    sink = MaintainedSink(step(fail(PermissionError("no right"))), step(lambda: "done"))
    failed, done = maintain(plan_of(sink), spark, ["shop.a"], dry_run=False)
    assert "shop.a → kept: compact: no right" in str(failed)
    assert (done.outcome, done.error) == ("done", None)


def test_due_steps_are_reported_without_running_them(spark: SparkSession) -> None:
    sink = MaintainedSink(step(fail(AssertionError("it ran"))))
    (due,) = maintain(plan_of(sink), spark, ["shop.a"], dry_run=True)
    assert str(due) == "shop.a → kept: compact: 9 files"


def test_stop_cancels_a_running_step(spark: SparkSession) -> None:
    running = threading.Event()

    def compact() -> str:
        running.set()
        spark.range(0, 10**13, 1, 2).selectExpr("sum(id * 2 % 3)").collect()  # takes hours unless it is canceled
        return "done"

    run = Run(spark, MaintainedSink(step(compact)))
    run.write("shop.a")
    assert running.wait(30)
    run.maintainer.stop()
    assert run.reported == []
