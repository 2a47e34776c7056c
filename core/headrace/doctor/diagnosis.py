"""All checks of a pipeline file, in the order in which they depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.light_reader import find_local
from headrace.doctor import finding_kinds as kinds
from headrace.doctor.checkpoint_state import CheckpointState
from headrace.doctor.clock import ClockReadings
from headrace.doctor.connections import list_connection_checks, list_option_checks
from headrace.doctor.examination import Check, Passed, Report, Result, Skipped
from headrace.doctor.folders import list_folder_checks
from headrace.doctor.machine import list_machine_checks
from headrace.doctor.session_checks import list_session_checks
from headrace.findings import Checkup, Severity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline import Pipeline

#: Checks that need the pipeline.
_OF_PIPELINE = "options, folders, checkpoint and connections"


@dataclass
class Diagnosis:
    """Examination of a pipeline file. ``load`` builds its pipeline.

    ``start_session``: starts Spark for the pipeline; None: no check needs it. ``list_blocks``: the checks of blocks of commands.
    """

    file: str
    load: Callable[[], Pipeline]
    list_blocks: Callable[[Checkup], Iterator[Check]]
    start_session: Callable[[Pipeline], SparkSession] | None = None
    pipeline: Pipeline | None = None
    state: CheckpointState | None = None
    report: Report = field(init=False)

    def __post_init__(self) -> None:
        self.report, self._clocks = Report(self.file), ClockReadings()
        self._spark: SparkSession | None = None

    def make(self) -> Report:
        """Make all checks, and return their report."""
        self.report.make([Check(f"pipeline file {self.file}", self._load, kinds.FILE_INVALID)])
        self.report.make(list_machine_checks(self.pipeline.plan if self.pipeline else None))
        if self.pipeline is None:
            self.report.make([Check("pipeline", lambda: [Skipped(_OF_PIPELINE, "the pipeline cannot be built")])])
            self.report.make(self.list_blocks(Checkup(note_time=self._clocks.note)))
        else:
            self._examine(self.pipeline)
        self.report.make([Check("clock", self._clocks.compare)])
        return self.report

    def _examine(self, pipeline: Pipeline) -> None:
        self.report.make([*list_option_checks(pipeline.plan), *list_folder_checks(pipeline.plan)])
        if self.start_session is not None:
            self.report.make([Check("Spark session", lambda: self._start(pipeline), kinds.SESSION_FAILED, limit=None)])
        self.state = CheckpointState.open(pipeline, self._spark)
        self.report.make(self.state.list_checks())
        checkup = self._make_checkup(self.state)
        self.report.make(list_connection_checks(pipeline.plan, checkup))
        self.report.make(self.list_blocks(checkup))
        if self._spark is not None:
            known = {finding.what for finding in self.report.findings}
            self.report.make(list_session_checks(pipeline, self._spark, known))

    def _load(self) -> Iterator[Result]:
        self.pipeline = self.load()
        yield Passed(f"pipeline file {self.file}", f"pipeline {self.pipeline.name}")

    def _start(self, pipeline: Pipeline) -> Iterator[Result]:
        if any(
            finding.severity == Severity.ERROR and finding.kind in _PREVENT_SPARK for finding in self.report.findings
        ):
            yield Skipped("the Spark session", "the errors above prevent its start")
            return
        assert self.start_session is not None, "checked by the caller"
        self._spark = self.start_session(pipeline)
        yield Passed("Spark session", f"Spark {self._spark.version}, {self._spark.sparkContext.master}")

    def _make_checkup(self, state: CheckpointState) -> Checkup:
        find = partial(find_local, conf=state.pipeline.plan.spark_conf)
        checkup = Checkup(self._spark, state.delay_seconds, find_local=find, note_time=self._clocks.note)
        if self._spark is None or (folders := state.folders) is None or not folders.next_batch:
            return checkup
        return replace(checkup, stream=folders.stream, batch=folders.next_batch - 1)


#: Findings with which Spark does not start.
_PREVENT_SPARK = (kinds.SPARK_UNUSABLE, kinds.SPARK_UNSUPPORTED, kinds.JAVA_MISSING, kinds.JAR_INVALID)
