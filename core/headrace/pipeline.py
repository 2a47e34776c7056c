"""Pipelines from a file, a mapping or objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.epochs import Epoch
from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.light_reader import open_without_spark, read_history, read_log, read_status
from headrace.config.loader import build
from headrace.config.yaml_document import Document, load
from headrace.engine.batch.maintenance import MeasuredTable, Report, choose_tables, find_tables, maintain, measure
from headrace.engine.commands import preflight, table_origins
from headrace.engine.commands.check_item import CheckItem
from headrace.engine.commands.replay import ReplayResult, replay
from headrace.engine.commands.resync import Resync, resync
from headrace.engine.commands.table_origins import TableOrigin
from headrace.engine.plan.error_translation import SparkDiedError, redacted_errors, spark_died, translate
from headrace.engine.run.query import Query
from headrace.engine.run.run_options import RunOptions
from headrace.engine.run.run_warnings import find_notes, find_warnings
from headrace.engine.run.start import hold_for_command, record_for, start
from headrace.engine.write.table_plan import check_capabilities
from headrace.errors import ConfigError, DataError, HeadraceError, LoginError
from headrace.pipeline_reads import PipelineReads
from headrace.progress.audit_entry import AuditEntry
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress
from headrace.progress.status import CheckpointStatus
from headrace.progress.summary import Summary
from headrace.runtime.session.session_check import find_exposures
from headrace.sdk.interval import seconds_of
from headrace.sdk.source import Offset
from headrace.spark.sessions import Sessions, find_active_session
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.sdk.file_system import TextFolder

__all__ = ["Maintained", "MeasuredTable", "Pipeline", "Query", "SparkDiedError", "TableOrigin", "spark_died"]

#: Default trigger of continuous mode.
DEFAULT_TRIGGER = "500 milliseconds"


@dataclass
class Pipeline(PipelineReads):
    """Pipeline built from objects; ``from_file`` and ``from_dict`` build it from YAML and from a mapping."""

    @classmethod
    def from_file(cls, path: str | Path, options: Mapping[str, Mapping[str, Any]] | None = None) -> Pipeline:
        """Return the pipeline of a YAML file. Errors name the line. ``options`` replace those of its blocks, by key."""
        return build(load(path), cls, options)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> Pipeline:
        """Return the pipeline of a mapping with the keys of the file."""
        if not isinstance(config, Mapping):
            raise ConfigError(
                f"must be a mapping, and is of type {type(config).__name__}",
                where="Pipeline.from_dict",
                fix="pass the keys of a pipeline file as a dict",
            )
        return build(Document(dict(config), "config"), cls)

    def check(self, spark: SparkSession | None = None, *, connect: bool = False) -> list[CheckItem]:
        """Check everything that can be checked before a stream starts; raise the first error. Writes nothing.

        ``connect``: also try all connections of the pipeline; a failure is an item with its ``error``. A temporary file is written to
        each folder of a sink.
        """
        with redacted_errors(self.plan):
            check_capabilities(self.plan)
            items = [preflight.list_plugins(self.plan)]
            spark = self._session(spark)
            items.append(CheckItem("session", f"Spark {spark.version}, {spark.sparkContext.master}"))
            session = self._check_plugins(spark)
            folders = self._open_folders(spark)
            warnings = find_warnings(self.plan, folders.folder, folders.next_batch, spark.version, remember=False)
            items += [CheckItem("warning", text) for text in (*warnings, *find_exposures(session))]
            items += [CheckItem("note", text) for text in find_notes(self.plan)]
            items += preflight.try_connections(self.plan, session) if connect else ()
            items += preflight.list_omitted(self.plan, session)
            items += preflight.plan_known_columns(self.plan, session)
        return [item.redact(self.redact) for item in items]

    def run(
        self, spark: SparkSession | None = None, *, on_progress: Callable[[BatchProgress], None] | None = None
    ) -> Summary:
        """Apply all records that are available now, and return a summary. Raises when the run fails."""
        batches: list[BatchProgress] = []

        def record(progress: BatchProgress) -> None:
            batches.append(progress)
            if on_progress:
                on_progress(progress)

        self._start(spark, RunOptions(on_progress=record)).await_termination()
        return Summary.of(self.name, batches)

    def start(
        self,
        spark: SparkSession | None = None,
        trigger: str | None = None,
        *,
        on_progress: Callable[[BatchProgress], None] | None = None,
        on_maintenance: Report | None = None,
    ) -> Query:
        """Start the pipeline in continuous mode. ``trigger``: ``"10 seconds"``; default: the pipeline's trigger, or half a second."""
        pause = seconds_of((self.settings.trigger or DEFAULT_TRIGGER) if trigger is None else trigger)
        return self._start(spark, RunOptions(pause, on_progress, on_maintenance))

    def start_available_now(
        self,
        spark: SparkSession | None = None,
        *,
        on_progress: Callable[[BatchProgress], None] | None = None,
        on_maintenance: Report | None = None,
    ) -> Query:
        """Start a run of the available records, and return its handle immediately."""
        return self._start(spark, RunOptions(None, on_progress, on_maintenance))

    def _require_batches(self, spark: SparkSession) -> None:
        """Raise ConfigError if the pipeline has never applied a batch."""
        if not Folder(spark, self.checkpoint).exists() or self._open_folders(spark).next_batch == 0:
            what, fix = "the pipeline has not applied a batch yet", "run it until it has applied the snapshot"
            raise ConfigError(what, where=f"checkpoint {self.checkpoint}", fix=fix)

    def raise_epoch(self, reason: str = "", spark: SparkSession | None = None) -> Epoch:
        """Make all changes from the next batch on newer than earlier ones, for a restored or replaced database.

        Stop the pipeline before. Before the first batch, all changes are newer than the rows of existing tables.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            with hold_for_command(self.plan, spark, "epoch", reason=reason):
                checkpoint = Checkpoint(spark, self.checkpoint, self.name)
                return checkpoint.epochs.add(checkpoint.next_batch, reason)

    def resync(self, table: str, *, now: bool = False, spark: SparkSession | None = None) -> list[Resync]:
        """Remove the rows of a table that its newest snapshot does not have; return the result for each sink.

        ``now``: also when the snapshot is incomplete or has dead letters. Stop the pipeline before. ConfigError when the table has no
        snapshot.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            self._require_batches(spark)
            with hold_for_command(self.plan, spark, "resync", tables=(table,), now=now):
                return resync(self.plan, spark, table, now=now)

    def replay(
        self, *, reason: str | None = None, table: str | None = None, spark: SparkSession | None = None
    ) -> Iterator[ReplayResult]:
        """Apply dead letters again, those of one reason or table, or all; yield the result of each table and batch.

        Stop the pipeline before. Rows are applied in the order of their positions, and at most once.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            with hold_for_command(self.plan, spark, "replay", reason=reason, table=table):
                yield from replay(self.plan, spark, reason=reason, table=table)

    def history(self, spark: SparkSession | None = None) -> list[BatchProgress]:
        """Return the progress of the last 100 batches, oldest first.

        A session that is passed or active reads the checkpoint. Without one, Spark starts only when nothing else can read it.
        """
        with redacted_errors(self.plan):
            return read_history(self._checkpoint_reader(spark), f"checkpoint {self.checkpoint}", self.name)

    def log(self, last: int | None = None, spark: SparkSession | None = None) -> list[AuditEntry]:
        """Return the commands that somebody ran on the pipeline, oldest first, or the ``last`` ones. Spark starts as for ``history``."""
        with redacted_errors(self.plan):
            return read_log(self._checkpoint_reader(spark), f"checkpoint {self.checkpoint}", self.name, last)

    def record(self, command: str, spark: SparkSession | None = None, **arguments: Any) -> AbstractContextManager[None]:
        """Return a block in which a command runs that ``log`` shows. ``arguments``: as the user gave them."""
        return record_for(self.plan, self._session(spark), command, **arguments)

    def status(self, spark: SparkSession | None = None) -> CheckpointStatus:
        """Return lag, latency and failure of each table, from the checkpoint. A run may be active. Spark starts as for ``history``."""
        with redacted_errors(self.plan):
            reader, where = self._checkpoint_reader(spark), f"checkpoint {self.checkpoint}"
            self.plan.learn_tables(reader)
            return read_status(reader, where, self.name, self._name_sinks)

    def _name_sinks(self, table: str) -> list[str]:
        return list(self.plan.for_table(table).sink_names.values())

    @property
    def needs_spark_for_status(self) -> bool:
        """Whether ``history`` and ``status`` need a Spark session: only Hadoop can read the checkpoint's address."""
        return find_active_session() is None and self._open_without_spark() is None

    def _open_without_spark(self) -> TextFolder | None:
        return open_without_spark(self.checkpoint, self.plan.spark_conf, self.plan.file_systems)

    def _checkpoint_reader(self, spark: SparkSession | None) -> TextFolder:
        spark = spark or find_active_session()
        reader = None if spark else self._open_without_spark()
        return reader or Folder(self._session(spark), self.checkpoint)

    def measure(self, spark: SparkSession | None = None) -> list[MeasuredTable]:
        """Return the tables that the pipeline has written, from each sink that can measure them."""
        with redacted_errors(self.plan):
            spark = self._session(spark)
            return list(measure(self.plan, spark, find_tables(self.plan, self._open_folders(spark))))

    def maintain(
        self, tables: Sequence[str] = (), *, dry_run: bool = False, spark: SparkSession | None = None
    ) -> Iterator[Maintained]:
        """Maintain the pipeline's tables, or those named, step by step, also with ``maintenance.enabled: false``.

        A run may be active: of two concurrent commits the later one is rejected and retried. ``dry_run``: only report what is due. A failed step
        is yielded with its ``error``.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            chosen = choose_tables(tables, find_tables(self.plan, self._open_folders(spark)))
            with nullcontext() if dry_run else record_for(self.plan, spark, "maintain", tables=tuple(tables)):
                yield from maintain(self.plan, spark, chosen, dry_run=dry_run)

    def find_origins(self, spark: SparkSession | None = None) -> list[TableOrigin]:
        """Return the tables of the pipeline with the topics that they come from. A run may be active."""
        with redacted_errors(self.plan):
            return table_origins.find_origins(self.plan, self._open_folders(self._session(spark)))

    def find_changed_columns(self, table: str, frame: DataFrame) -> set[str]:
        """Return the columns of a table, and those of its events, that transforms change. ``frame``: the table, as ``read`` returns it."""
        with redacted_errors(self.plan):
            return table_origins.find_changed_columns(self.plan, table, frame)

    def find_end(self, spark: SparkSession | None = None) -> Offset | None:
        """Return the end of the source's records, for ``has_applied``; None when it is unknown."""
        with redacted_errors(self.plan):
            spark = self._session(spark)
            return table_origins.find_end(self.plan, spark, self._open_folders(spark))

    def has_applied(self, end: Offset, spark: SparkSession | None = None) -> bool:
        """Return whether a run has applied all records before ``end``, a result of ``find_end``."""
        with redacted_errors(self.plan):
            spark = self._session(spark)
            return table_origins.has_applied(self.plan, spark, self._open_folders(spark), end)

    def _start(self, spark: SparkSession | None, options: RunOptions) -> Query:
        with redacted_errors(self.plan):
            check_capabilities(self.plan)
            spark, used = self._session(spark), self.plan
            try:
                return self._begin(spark, options)
            except LoginError:
                if not self.current_plan.rotate(used, spark):  # The pipeline may have been built hours ago.
                    raise
                return self._begin(spark, options)

    def _begin(self, spark: SparkSession, options: RunOptions) -> Query:
        session = self._check_plugins(spark)
        try:
            options = replace(options, names_checked=preflight.find_names(self.plan, session))
        except DataError as error:
            options = replace(options, error=error)
        return start(self.current_plan, spark, options)

    def _check_plugins(self, spark: SparkSession) -> SparkSession:
        """Return a session of headrace in which each plugin has checked its requirements."""
        session = Sessions(spark, self.plan.sql_conf).of("check")
        for plugin in self.plan.all_plugins:
            plugin.check(session)
        return session


def check_before_session(pipeline: Pipeline) -> None:
    """Check what can be wrong without a Spark session."""
    check_capabilities(pipeline.plan)


def redact_errors_of(pipeline: Pipeline) -> AbstractContextManager[None]:
    """Return a block from which no error shows a secret of the pipeline."""
    return redacted_errors(pipeline.plan)


def translate_error(pipeline: Pipeline, error: BaseException) -> HeadraceError:
    """Translate an error of Spark or of a plugin into an error of headrace."""
    return translate(error, pipeline.plan)
