"""Tests of writes that are interrupted by a fault or by another writer."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.errors import NoSuchTableError, RetriableError
from headrace.sdk.sink import Mode, Sink
from headrace.spark.sessions import Sessions
from headrace.testing._internal.claims import applies_if, claims
from headrace.testing._internal.faults import Calls, Fault
from headrace.testing._internal.meantime import in_the_meantime
from headrace.testing.tables import Row, Target, put, remove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PEOPLE = "id int, name string"
#: Rows of a table; empty if it does not exist.
Content = list[tuple[int, str]]

_fails = applies_if(lambda kit: kit.faults)


class InterruptionConformance:
    """Tests of faults at the steps of a write. A step is an external call of the sink: to Spark, Java, a file or a socket."""

    #: Faults per test: at the first step, at the last, and at random steps between. 0 turns the tests off.
    faults: ClassVar[int] = 8
    #: Dotted names of more functions that are steps. Calls in C code, as in a database driver, are not detected.
    steps: ClassVar[Sequence[str]] = ()
    #: Whether batches are atomic for readers, also after an interrupted write. False if its rows may appear one by one.
    is_atomic: ClassVar[bool] = True
    plugin_class: ClassVar[type[Sink]]

    @pytest.fixture
    def fault_injection(self, headrace_spark: SparkSession, tmp_path: Path) -> FaultInjection:
        """Return the runner of interrupted and repeated writes."""
        return FaultInjection(self, headrace_spark, tmp_path)

    @_fails
    def test_append_survives_a_fault_at_any_step(self, fault_injection: FaultInjection) -> None:
        fault_injection.run("append")

    @applies_if(lambda kit: kit.faults and kit.plugin_class.capabilities.upsert)
    def test_upsert_survives_a_fault_at_any_step(self, fault_injection: FaultInjection) -> None:
        fault_injection.run("upsert")

    @claims("concurrent_writers")
    def test_two_pipelines_write_a_table_concurrently(self, target: Target, headrace_spark: SparkSession) -> None:
        session = Sessions(headrace_spark, target.sink.sql_conf).of("another")
        other = replace(target, sink=self.plugin_class(target.sink.config), session=session, pipeline=uuid.uuid4().hex)
        refusals: dict[str, object] = {}

        def write(writer: Target, frame: DataFrame) -> None:
            refusals[writer.pipeline] = writer.refusal(lambda: writer.apply(frame))

        written = []
        for batch in (0, 1):  # the first batch creates the table
            rows = {writer.pipeline: put(batch, 2 * batch + n, "a") for n, writer in enumerate((target, other))}
            meanwhile = partial(write, other, other.frame(_PEOPLE, rows[other.pipeline]))
            with in_the_meantime(meanwhile) as slow_down:
                write(target, slow_down(target.frame(_PEOPLE, rows[target.pipeline])))
            for writer in (target, other):
                if (refusal := refusals[writer.pipeline]) is not None:
                    assert isinstance(refusal, RetriableError), refusal
                    writer.write(_PEOPLE, rows[writer.pipeline])
            written += [row[0] for row in rows.values()]
            assert [row["id"] for row in target.rows()] == written


@dataclass
class _Scenario:
    """A table and its expected content."""

    mode: Mode
    deletes: bool
    name: str = field(default_factory=lambda: f"kit.t{uuid.uuid4().hex[:8]}")
    pipeline: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: Number of the next batch.
    batch: int = 0
    content: Content = field(default_factory=list)

    def next_rows(self) -> list[Row]:
        """Return the rows of the next batch: new rows, and in mode upsert also an update and a delete."""
        name, new = f"batch {self.batch}", 2 * self.batch + 2
        at = 10 * self.batch
        rows = [put(at, new, name), put(at + 1, new + 1, name)]
        if self.mode == "upsert":
            rows += [put(at + 2, 1, name), *([remove(at + 3, new - 2, None)] if self.deletes else [])]
        return rows

    def expected_rows(self) -> Content:
        """Return the content of the table after the next batch."""
        rows = dict(self.content)
        for number, name, _, is_deleted in self.next_rows():
            rows.pop(number, None)
            if not is_deleted:
                rows[number] = name
        return sorted(rows.items())

    def advance(self) -> None:
        """Mark the next batch as written."""
        self.content, self.batch = self.expected_rows(), self.batch + 1


class FaultInjection:
    """Runner that interrupts each batch at one step and repeats it with a new instance and session, like a new process."""

    def __init__(self, kit: Any, spark: SparkSession, folder: Path) -> None:
        self._kit, self._sink, self._config = kit, kit.plugin_class, kit.config(folder)
        sessions = Sessions(spark, self._sink.sql_conf)
        self._dying, self._living = sessions.of("dying"), sessions.of("living")
        self._calls = Calls(kit.steps)

    def run(self, mode: Mode) -> None:
        """Interrupt writes that create a table and writes to an existing table."""
        old, numbers = self._create_scenario(mode), []
        for _ in range(2):
            error = self._write(old, self._living)
            assert error is None, error
            old.advance()
            numbers.append(len(self._calls.steps))
        points = [(step, fault, is_old) for is_old in (0, 1) for step in range(numbers[is_old]) for fault in Fault]
        rng, last = random.Random(7), len(points) - 1  # noqa: S311 - a fixed selection
        chosen = {0, last, *rng.sample(range(last), min(self._kit.faults, last))}
        for number in sorted(chosen):
            step, fault, is_old = points[number]
            self._interrupt(old if is_old else self._create_scenario(mode), step, fault)

    def _create_scenario(self, mode: Mode) -> _Scenario:
        return _Scenario(mode, self._sink.capabilities.delete)

    def _interrupt(self, scenario: _Scenario, step: int, fault: Fault) -> None:
        before, after = scenario.content, scenario.expected_rows()
        error = self._write(scenario, self._dying, fault, step)
        names = self._calls.steps
        description = fault.format(names[step] if step < len(names) else "nothing")
        point = f"step {step + 1} of batch {scenario.batch} in mode {scenario.mode}: {description}"
        found = self._read(scenario)
        if error is None and fault is not Fault.DEATH:
            assert found == after, f"{point}: the write succeeded without its rows"
        elif self._kit.is_atomic:
            assert found in (before, after), f"{point}: the table contains a part of the batch"
        else:
            assert set(before) <= set(found) <= set(after), f"{point}: the table contains other rows"
        error = self._write(scenario, self._living)
        assert error is None, f"{point}: the batch cannot be written again: {error!r}"
        assert self._read(scenario) == after, f"{point}: wrong rows after the batch was written again"
        scenario.advance()

    def _write(
        self, scenario: _Scenario, session: SparkSession, fault: Fault | None = None, step: int = -1
    ) -> BaseException | None:
        """Write the next batch with a new instance and return its error."""
        target = self._make_target(scenario, session)
        frame = target.frame(_PEOPLE, *scenario.next_rows())
        # A new thread, because Java keeps state per thread.
        with self._calls.watch(fault, step), ThreadPoolExecutor(1) as pool:
            return pool.submit(target.apply, frame, scenario.mode).exception()

    def _read(self, scenario: _Scenario) -> Content:
        target = self._make_target(scenario, self._living)
        try:
            rows = sorted((row["id"], row["name"]) for row in target.rows())
        except NoSuchTableError:
            return []
        # A sink that claims neither may store a row more than once.
        is_once = self._sink.capabilities.exactly_once or scenario.mode == "upsert"
        return rows if is_once else [row for row, _ in groupby(rows)]

    def _make_target(self, scenario: _Scenario, session: SparkSession) -> Target:
        return Target(
            self._sink(self._config), session, name=scenario.name, pipeline=scenario.pipeline, batch=scenario.batch - 1
        )
