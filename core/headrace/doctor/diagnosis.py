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
from headrace.findings import Checkup

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
    #: Called with each check before it is made.
    step: Callable[[str], None] = lambda what: None
    pipeline: Pipeline | None = None
    state: CheckpointState | None = None
    report: Report = field(init=False)

    def __post_init__(self) -> None:
        self.report, self._clocks = Report(self.file, step=self.step), ClockReadings()
        self._spark: SparkSession | None = None
        #: Delay and newest batch of the pipeline.
        self._position = Checkup()

    def make(self) -> Report:
        """Make all checks, and return their report."""
        self.report.make("file", [Check(f"pipeline file {self.file}", self._load, kinds.FILE_INVALID)])
        self.report.make("machine", list_machine_checks(self.pipeline.plan if self.pipeline else None))
        if self.pipeline is None:
            why = "the pipeline cannot be built"
            self.report.make("pipeline", [Check("pipeline", lambda: [Skipped(_OF_PIPELINE, why)])])
            self.report.make("blocks", self.list_blocks(Checkup(note_time=self._clocks.note)))
        else:
            self._examine(self.pipeline)
        self.report.make("clock", [Check("clock", self._clocks.compare)])
        self.report.name_file()
        return self.report

    def _examine(self, pipeline: Pipeline) -> None:
        self.report.make("options", list_option_checks(pipeline.plan))
        self.report.make("folders", list_folder_checks(pipeline.plan))
        if self.start_session is not None:
            start = Check("Spark session", lambda: self._start(pipeline), kinds.SESSION_FAILED, limit=None)
            self.report.make("session", [start])
        self.report.make("checkpoint", self._list_checkpoint_checks(pipeline))
        find = partial(find_local, conf=pipeline.plan.spark_conf)
        checkup = replace(self._position, spark=self._spark, find_local=find, note_time=self._clocks.note)
        self.report.make("connections", list_connection_checks(pipeline.plan, checkup))
        self.report.make("blocks", self.list_blocks(checkup))
        known = {finding.what for finding in self.report.findings}
        self.report.make("session", list_session_checks(pipeline, checkup, known))

    def _load(self) -> Iterator[Result]:
        self.pipeline = self.load()
        yield Passed(f"pipeline file {self.file}", f"pipeline {self.pipeline.name}")

    def _start(self, pipeline: Pipeline) -> Iterator[Result]:
        if any(finding.kind in _PREVENT_SPARK for finding in self.report.findings):
            yield Skipped("the Spark session", "the errors above prevent its start")
            return
        assert self.start_session is not None, "checked by the caller"
        self._spark = self.start_session(pipeline)
        yield Passed("Spark session", f"Spark {self._spark.version}, {self._spark.sparkContext.master}")

    def _list_checkpoint_checks(self, pipeline: Pipeline) -> Iterator[Check]:
        self.state = CheckpointState.open(pipeline, self._spark)
        yield from self.state.list_checks()
        self._position = Checkup(delay_seconds=self.state.delay_seconds)
        if (folders := self.state.folders) is not None and (planned := folders.next_batch):
            self._position = replace(self._position, stream=folders.stream, batch=planned - 1)


#: Findings with which Spark does not start.
_PREVENT_SPARK = (kinds.SPARK_UNUSABLE, kinds.SPARK_UNSUPPORTED, kinds.JAVA_MISSING, kinds.JAR_INVALID)
