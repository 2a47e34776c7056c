"""When a run looks at its tables, what waits for what, and what becomes of errors. Sinks here have steps that a test says."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.support.memory_sink import MemorySink

from headrace.config.maintenance_options import Maintenance
from headrace.config.settings import Settings
from headrace.engine.batch.maintenance import Maintained, SteadyClock, maintain
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.maintainer import BATCHES_BETWEEN_CHECKS, Maintainer
from headrace.errors import RetriableError
from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep
from headrace.sdk.sink import Sink, Table
from headrace.spark.sessions import Sessions
from headrace_sources import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


class KeptSink(MemorySink):
    """Says which tables it was asked for; its steps are a test's."""

    name = "kept"

    def __init__(self, *steps: MaintenanceStep) -> None:
        super().__init__(store=uuid.uuid4().hex)
        self.steps, self.looks = steps, list[str]()
        self.looked = threading.Semaphore(0)

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        self.looks.append(table.name)
        yield from self.steps
        self.looked.release()


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
    """A run's maintenance, and what it reported."""

    def __init__(self, spark: SparkSession, *sinks: Sink, enabled: bool = True) -> None:
        self.reported: list[Maintained] = []
        self.maintainer = Maintainer(
            CurrentPlan(plan_of(*sinks, enabled=enabled)), Sessions(spark), self.reported.append
        )

    def write(self, *tables: str, batches: int = BATCHES_BETWEEN_CHECKS) -> None:
        for _ in range(batches):
            self.maintainer.note_batch(tables)


def test_a_table_is_looked_at_after_some_batches_of_its_own(spark: SparkSession) -> None:
    sink = KeptSink(step(lambda: "9 files into 1"))
    run = Run(spark, sink)
    run.write("shop.a", "shop.b", batches=BATCHES_BETWEEN_CHECKS - 1)
    run.write("shop.a", batches=1)
    assert sink.looked.acquire(timeout=30)
    run.maintainer.stop()
    assert sink.looks == ["shop.a"]
    assert [(done.table, done.sink, done.outcome) for done in run.reported] == [("shop.a", "kept", "9 files into 1")]
    assert str(run.reported[0]) == "shop.a → kept: compact: 9 files into 1, took 0.0 s"


def test_a_run_that_ends_looks_at_all_that_it_wrote(spark: SparkSession) -> None:
    sink = KeptSink()
    run = Run(spark, sink)
    run.write("shop.a", "shop.b", batches=1)
    run.maintainer.finish()
    run.maintainer.stop()
    assert sink.looks == ["shop.a", "shop.b"]


def test_no_run_looks_where_the_file_says_so(spark: SparkSession) -> None:
    sink = KeptSink()
    run = Run(spark, sink, enabled=False)
    run.write("shop.a")
    run.maintainer.finish()
    assert sink.looks == []


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_batch_waits_for_a_step_that_has_to_be_alone_and_for_no_other(spark: SparkSession, exclusive: bool) -> None:
    under_way, may_end, order = threading.Event(), threading.Event(), list[str]()

    def compact() -> str:
        under_way.set()
        assert may_end.wait(30)
        order.append("step")
        return "done"

    run = Run(spark, KeptSink(step(compact, exclusive=exclusive)))

    def apply_batch(table: str) -> None:
        with run.maintainer.locks.hold(table):
            order.append(table)

    run.write("shop.a")
    assert under_way.wait(30)
    apply_batch("shop.b")
    batch = threading.Thread(target=apply_batch, args=("shop.a",))
    batch.start()
    batch.join(0.2 if exclusive else 30)
    may_end.set()
    batch.join()
    run.maintainer.finish()
    assert order == (["shop.b", "step", "shop.a"] if exclusive else ["shop.b", "shop.a", "step"])


def test_a_table_whose_maintenance_fails_is_left_alone_for_a_while_and_the_others_are_not(spark: SparkSession) -> None:
    errors: list[Exception] = [PermissionError("no right to delete s3a://lake/x"), RetriableError("conflict")]
    sink, other = KeptSink(step(lambda: fail(errors[0])() if sink.looks[-1] == "shop.a" else "done")), KeptSink()
    other.name = "other"  # type: ignore[misc]  # two sinks of one class
    run = Run(spark, sink, other)
    run.write("shop.a")
    assert other.looked.acquire(timeout=30)
    time.sleep(0.5)  # four times as long as the look at the other took
    run.write("shop.a", "shop.b")
    run.maintainer.finish()
    assert (sink.looks, other.looks) == (["shop.a", "shop.b"], ["shop.a", "shop.a", "shop.b"])
    failed, done = run.reported
    assert "shop.a → kept: compact: " in str(failed)
    assert "no right to delete s3a://lake/x" in str(failed)
    assert (done.table, done.error) == ("shop.b", None)


def test_looks_count_into_the_time_for_which_a_table_is_left_alone(spark: SparkSession) -> None:
    class SlowToLook(KeptSink):
        def plan_maintenance(
            self, spark: SparkSession, table: Table, policy: MaintenancePolicy
        ) -> Iterator[MaintenanceStep]:
            time.sleep(2)  # and nothing is due
            yield from super().plan_maintenance(spark, table, policy)

    sink = SlowToLook()
    run = Run(spark, sink)
    run.write("shop.a")
    assert sink.looked.acquire(timeout=30)
    run.write("shop.a")
    run.maintainer.finish()
    assert sink.looks == ["shop.a"]


def test_a_clock_that_jumps_makes_nothing_old(spark: SparkSession) -> None:
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


def test_a_step_that_lost_to_a_writer_is_tried_again(spark: SparkSession) -> None:
    outcomes = iter([RetriableError("another writer committed"), None])

    def compact() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "done"

    sink = KeptSink(step(compact))
    (done,) = maintain(plan_of(sink), spark, ["shop.a"], dry_run=False)
    assert (done.outcome, done.error) == ("done", None)


def test_what_is_due_is_said_and_not_done(spark: SparkSession) -> None:
    sink = KeptSink(step(fail(AssertionError("it ran"))))
    (due,) = maintain(plan_of(sink), spark, ["shop.a"], dry_run=True)
    assert str(due) == "shop.a → kept: compact: 9 files"


def test_a_run_that_is_told_to_end_cancels_what_is_under_way(spark: SparkSession) -> None:
    under_way = threading.Event()

    def compact() -> str:
        under_way.set()
        spark.range(0, 10**13, 1, 2).selectExpr("sum(id * 2 % 3)").collect()  # would take hours
        return "done"

    run = Run(spark, KeptSink(step(compact)))
    run.write("shop.a")
    assert under_way.wait(30)
    run.maintainer.stop()
    assert run.reported == []
