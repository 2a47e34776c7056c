"""What a table has to be after its writes were interrupted: by a fault, or by another writer."""

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

from headrace.errors import ConfigError, RetriableError
from headrace.sdk.sink import Mode, Sink
from headrace.spark.sessions import Sessions
from headrace.testing._internal.claims import applies_if, claims
from headrace.testing._internal.faults import Calls, Fault
from headrace.testing._internal.meantime import in_the_meantime
from headrace.testing.tables import Row, Target, put, remove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PEOPLE = "id int, name string"
#: Of a table that is not there, nothing.
Content = list[tuple[int, str]]

_fails = applies_if(lambda kit: kit.faults)


class InterruptionConformance:
    """Faults at the steps of a write. A step is a call by which the sink reaches beyond the process: to Spark, Java, a file or a socket."""

    #: How many times a test has a write fail: at the first step, at the last, and at some between. 0: it is not asked.
    faults: ClassVar[int] = 8
    #: Further functions that are steps, by their dotted names: what reaches out in C is not seen, as a database's driver may.
    steps: ClassVar[Sequence[str]] = ()
    #: Whether a reader sees a batch whole or not at all, also where a write was cut off; False: its rows may come one after the other.
    is_whole: ClassVar[bool] = True
    plugin_class: ClassVar[type[Sink]]

    @pytest.fixture
    def rehearsal(self, headrace_spark: SparkSession, tmp_path: Path) -> FaultInjection:
        """Writes that are cut off, and repeated."""
        return FaultInjection(self, headrace_spark, tmp_path)

    @_fails
    def test_an_append_that_is_cut_off_at_any_step(self, rehearsal: FaultInjection) -> None:
        rehearsal.run("append")

    @applies_if(lambda kit: kit.faults and kit.plugin_class.capabilities.upsert)
    def test_an_upsert_that_is_cut_off_at_any_step(self, rehearsal: FaultInjection) -> None:
        rehearsal.run("upsert")

    @claims("concurrent_writers")
    def test_two_pipelines_write_a_table_at_once(self, target: Target, headrace_spark: SparkSession) -> None:
        session = Sessions(headrace_spark, target.sink.sql_conf).of("another")
        other = replace(target, sink=self.plugin_class(target.sink.config), session=session, pipeline=uuid.uuid4().hex)
        refusals: dict[str, object] = {}

        def write(one: Target, frame: DataFrame) -> None:
            refusals[one.pipeline] = one.refusal(lambda: one.apply(frame))

        written = []
        for batch in (0, 1):  # the first makes the table
            rows = {one.pipeline: put(batch, 2 * batch + number, "a") for number, one in enumerate((target, other))}
            meanwhile = partial(write, other, other.frame(_PEOPLE, rows[other.pipeline]))
            with in_the_meantime(meanwhile) as slow_down:
                write(target, slow_down(target.frame(_PEOPLE, rows[target.pipeline])))
            for one in (target, other):
                if (refusal := refusals[one.pipeline]) is not None:
                    assert isinstance(refusal, RetriableError), refusal
                    one.write(_PEOPLE, rows[one.pipeline])
            written += [row[0] for row in rows.values()]
            assert [row["id"] for row in target.rows()] == written


@dataclass
class _Scenario:
    """A table, and what has to be in it."""

    mode: Mode
    deletes: bool
    name: str = field(default_factory=lambda: f"kit.t{uuid.uuid4().hex[:8]}")
    pipeline: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: The batch that comes next.
    batch: int = 0
    content: Content = field(default_factory=list)

    def next_rows(self) -> list[Row]:
        """Those of the next batch: new ones, and in mode upsert one that is there, and one that goes."""
        name, new = f"batch {self.batch}", 2 * self.batch + 2
        at = 10 * self.batch
        rows = [put(at, new, name), put(at + 1, new + 1, name)]
        if self.mode == "upsert":
            rows += [put(at + 2, 1, name), *([remove(at + 3, new - 2, None)] if self.deletes else [])]
        return rows

    def expected_rows(self) -> Content:
        """What is in the table after the next batch."""
        rows = dict(self.content)
        for number, name, _, is_gone in self.next_rows():
            rows.pop(number, None)
            if not is_gone:
                rows[number] = name
        return sorted(rows.items())

    def advance(self) -> None:
        self.content, self.batch = self.expected_rows(), self.batch + 1


class FaultInjection:
    """Batch after batch is cut off at one step, and repeated by another instance in another session, as by the next process."""

    def __init__(self, kit: Any, spark: SparkSession, folder: Path) -> None:
        self._kit, self._sink, self._config = kit, kit.plugin_class, kit.config(folder)
        sessions = Sessions(spark, self._sink.sql_conf)
        self._dying, self._living = sessions.of("dying"), sessions.of("living")
        self._calls = Calls(kit.steps)

    def run(self, mode: Mode) -> None:
        """Cuts off writes that create a table, and writes to one that is there."""
        old, numbers = self._begin(mode), []
        for _ in range(2):
            error = self._write(old, self._living)
            assert error is None, error
            old.advance()
            numbers.append(len(self._calls.steps))
        moments = [(step, fault, is_old) for is_old in (0, 1) for step in range(numbers[is_old]) for fault in Fault]
        chance, last = random.Random(7), len(moments) - 1  # noqa: S311 - the same ones each time
        chosen = {0, last, *chance.sample(range(last), min(self._kit.faults, last))}
        for number in sorted(chosen):
            step, fault, is_old = moments[number]
            self._cut(old if is_old else self._begin(mode), step, fault)

    def _begin(self, mode: Mode) -> _Scenario:
        return _Scenario(mode, self._sink.capabilities.delete)

    def _cut(self, story: _Scenario, step: int, fault: Fault) -> None:
        before, after = story.content, story.expected_rows()
        error = self._write(story, self._dying, fault, step)
        names = self._calls.steps
        what = fault.format(names[step] if step < len(names) else "nothing")
        moment = f"step {step + 1} of batch {story.batch} in mode {story.mode}: {what}"
        found = self._read(story)
        if error is None and fault is not Fault.DEATH:
            assert found == after, f"{moment}: the write says that it is done"
        elif self._kit.is_whole:
            assert found in (before, after), f"{moment}: the table has a part of the batch"
        else:
            assert set(before) <= set(found) <= set(after), f"{moment}: the table has other rows"
        again = self._write(story, self._living)
        assert again is None, f"{moment}: the batch cannot be written again: {again!r}"
        assert self._read(story) == after, f"{moment}: the batch was written again"
        story.advance()

    def _write(
        self, story: _Scenario, session: SparkSession, fault: Fault | None = None, step: int = -1
    ) -> BaseException | None:
        """Why a new instance could not write the next batch."""
        target = self._make_target(story, session)
        frame = target.frame(_PEOPLE, *story.next_rows())
        # What Java keeps for a thread ends with it.
        with self._calls.watch(fault, step), ThreadPoolExecutor(1) as pool:
            return pool.submit(target.apply, frame, story.mode).exception()

    def _read(self, story: _Scenario) -> Content:
        target = self._make_target(story, self._living)
        try:
            rows = sorted((row["id"], row["name"]) for row in target.rows())
        except ConfigError:
            return []
        # Who claims neither may have a row more than once.
        is_once = self._sink.capabilities.exactly_once or story.mode == "upsert"
        return rows if is_once else [row for row, _ in groupby(rows)]

    def _make_target(self, story: _Scenario, session: SparkSession) -> Target:
        return Target(
            self._sink(self._config), session, name=story.name, pipeline=story.pipeline, batch=story.batch - 1
        )
