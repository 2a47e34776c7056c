"""Checks of a checkpoint: its files, the run that uses it, its tables, and commands that were killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.epochs import FILE as EPOCHS
from headrace.checkpoint.layout import RANGED, STREAM, CheckpointFolders, read_header
from headrace.checkpoint.light_reader import open_without_spark, read_history, read_log, read_status
from headrace.checkpoint.run_note import Run, has_ended, read_run
from headrace.doctor import finding_kinds as kinds
from headrace.doctor.examination import Check, Passed, Result, Skipped
from headrace.findings import Finding
from headrace.progress.audit_entry import STARTED
from headrace.progress.rates import measure_age
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline import Pipeline
    from headrace.progress.audit_entry import AuditEntry
    from headrace.progress.model import BatchProgress
    from headrace.progress.rates import TableStatus
    from headrace.progress.status import CheckpointStatus
    from headrace.sdk.file_system import TextFolder

#: Seconds by which a table is behind before that is a finding.
_BEHIND = 3600.0
#: Files with JSON besides the header.
_JSON_FILES = (EPOCHS, "orders.json", "masks.json")
_RESTORE = "restore it from a backup, or use a new checkpoint folder: docs/checkpoint.md states what is then read again"


@dataclass
class CheckpointState:
    """State of a pipeline, read from its checkpoint. The parts stay empty if the checkpoint cannot be read."""

    pipeline: Pipeline
    reader: TextFolder | None
    status: CheckpointStatus | None = None
    run: Run | None = None
    batches: Sequence[BatchProgress] = ()
    commands: Sequence[AuditEntry] = ()
    header: Mapping[str, Any] | None = field(default=None, repr=False)
    is_readable: bool = False

    @classmethod
    def open(cls, pipeline: Pipeline, spark: SparkSession | None = None) -> CheckpointState:
        """Return the state of a pipeline's checkpoint, which is not read yet. Without a session, some addresses have no reader."""
        address, plan = pipeline.checkpoint, pipeline.plan
        reader = Folder(spark, address) if spark else open_without_spark(address, plan.spark_conf, plan.file_systems)
        return cls(pipeline, reader)

    @property
    def where(self) -> str:
        return f"checkpoint {self.pipeline.checkpoint}"

    @property
    def folders(self) -> CheckpointFolders | None:
        """Folders of the checkpoint; None without a session, or if the checkpoint cannot be used."""
        return CheckpointFolders(self.reader) if self.header is not None and isinstance(self.reader, Folder) else None

    @property
    def delay_seconds(self) -> float | None:
        """Seconds by which the pipeline may be behind its source. Records that arrived while no run was active are not counted in lags."""
        tables = self.status.tables if self.status else ()
        delays = [table.lag_seconds for table in tables if table.lag_seconds is not None]
        if self.run is None or self.run.was_killed_here:
            delays += [age for table in tables if (age := measure_age(table)) is not None]
        return max(delays, default=None)

    def list_checks(self) -> Iterator[Check]:
        """Yield the checks, in the order in which they must be made."""
        reader = self.reader
        if reader is None:
            why = f"only Spark can read {self.pipeline.checkpoint}: --spark"
            yield Check("checkpoint", lambda: [Skipped("checkpoint, tables and runs", why)])
            return
        checks = {self.where: self._check_files, "runs": self._check_runs}
        checks |= {"tables": self._check_tables, "commands": self._check_commands}
        for what, check in checks.items():
            yield Check(what, partial(self._run, check, reader, what), kinds.CHECKPOINT_INVALID)

    def _run(self, check: Callable[[TextFolder], Iterator[Result]], reader: TextFolder, what: str) -> Iterator[Result]:
        if what == self.where or self.is_readable:
            yield from check(reader)
        else:
            yield Skipped(what, "the checkpoint cannot be read")

    def _check_files(self, reader: TextFolder) -> Iterator[Result]:
        self.header, self.is_readable = read_header(reader, self.where, self.pipeline.name), True
        if self.header is None:
            yield Passed(self.where, "new")
            return
        for name in _JSON_FILES:
            text = reader.read(name)
            if text is None and name == EPOCHS and self.header.get("epochs"):
                yield Finding(kinds.CHECKPOINT_DAMAGED, f"{name} is missing", self.where, _RESTORE)
            elif text is not None and not _is_json(text):
                yield Finding(kinds.CHECKPOINT_DAMAGED, f"{name} is damaged", self.where, _RESTORE)
        for name in (STREAM, RANGED):
            yield from self._check_log(reader.folder(name), name)
        yield Passed(self.where, "readable")

    def _check_log(self, log: TextFolder, name: str) -> Iterator[Result]:
        """Yield a finding for a newest file of a log without content: a crash of the machine leaves such files."""
        for folder in ("offsets", "commits"):
            numbers = [int(file) for file in log.folder(folder).names() if file.isdigit()]
            newest = str(max(numbers, default=""))
            if newest and not (log.folder(folder).read(newest) or "").strip():
                what = f"{name}/{folder}/{newest} is empty"
                yield Finding(kinds.CHECKPOINT_DAMAGED, what, self.where, _RESTORE)

    def _check_runs(self, reader: TextFolder) -> Iterator[Result]:
        if self.header is None:
            yield Finding(kinds.NEVER_RUN, "the pipeline has never run", self.where, "headrace run FILE")
            return
        self.run = read_run(reader)
        if self.run is None:
            yield Finding(kinds.RUN_STOPPED, "no run is active", self.where, "headrace run FILE")
        elif self.run.was_killed_here:
            what = f"the last run was killed: {self.run}"
            fix = "start it again: nothing is lost. If it was killed for lack of memory, dmesg shows it"
            yield Finding(kinds.RUN_KILLED, what, self.where, fix)
        else:
            yield Finding(kinds.RUN_ACTIVE, f"{self.run} uses the checkpoint", self.where)

    def _check_tables(self, reader: TextFolder) -> Iterator[Result]:
        pipeline = self.pipeline
        pipeline.plan.learn_tables(reader)
        names = lambda table: list(pipeline.plan.for_table(table).sink_names.values())  # noqa: E731
        self.batches = read_history(reader, self.where, pipeline.name)
        self.status = read_status(reader, self.where, pipeline.name, names)
        for table in self.status.tables:
            yield from _check_table(table)
        if letters := self.status.summary.dead_letters:
            count = self.status.summary.batches
            what = f"{letters} dead letter{'s' * (letters != 1)} in the last {count} batch{'es' * (count != 1)}"
            fix = "headrace dead-letters FILE shows the reasons; correct the cause, then headrace replay FILE"
            yield Finding(kinds.DEAD_LETTERS, what, self.where, fix)

    def _check_commands(self, reader: TextFolder) -> Iterator[Result]:
        self.commands = read_log(reader, self.where, self.pipeline.name, None)
        for entry in self.commands:
            if entry.result == STARTED and has_ended(entry.host, entry.pid):
                what = f"headrace {entry.command}, started {entry.started}, was killed"
                fix = f"check what it was to change, and run headrace {entry.command} again"
                yield Finding(kinds.COMMAND_KILLED, what, self.where, fix)


def _check_table(table: TableStatus) -> Iterator[Result]:
    where = f"table {table.table}, sink {table.sink}"
    if table.error:
        what = f"failing since {table.failing_since}: {table.error}"
        yield Finding(kinds.TABLE_FAILED, what, where, "correct the cause: the table then catches up by itself")
    elif table.lag_seconds is not None and table.lag_seconds > _BEHIND:
        what = f"the table is {table.lag_seconds / 3600:.1f} hours behind its source"
        fix = 'start the run if it is stopped; otherwise see docs/monitoring.md, "Where the time goes"'
        yield Finding(kinds.TABLE_BEHIND, what, where, fix)
    else:
        yield Passed(where, "current" if table.lag_seconds is not None else "written")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
