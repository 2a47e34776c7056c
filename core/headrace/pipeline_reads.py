"""Reads of a pipeline's tables, and the sessions in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.layout import CheckpointFolders, read_header
from headrace.cluster.session import build_submitted_session, is_submitted
from headrace.dead_letters.replay_queue import ReplayQueue
from headrace.dead_letters.store import TABLE, open_stores, read_all
from headrace.engine.commands.feed_reads import read_feed
from headrace.engine.commands.row_history import RowHistory, RowReader
from headrace.engine.commands.table_changes import diff_versions, read_table_key
from headrace.engine.commands.table_reads import find_sink, read_table
from headrace.engine.plan.error_translation import redacted_errors
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.pipeline_spec import PipelineSpec
from headrace.engine.run.current_plan import CurrentPlan
from headrace.errors import ConfigError
from headrace.runtime.reporter import Reporter
from headrace.runtime.session.session_builder import build_session
from headrace.runtime.session.session_check import check_is_session, check_session
from headrace.runtime.session.spark_support import spark_version
from headrace.spark.sessions import Sessions, find_active_session, move_to_session
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DEAD_LETTERS", "PipelineReads", "RowHistory"]

#: Name of the dead letters for ``Pipeline.read`` and ``headrace show``.
DEAD_LETTERS = TABLE


@dataclass
class PipelineReads(PipelineSpec):
    """Reads of a pipeline."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.current_plan = CurrentPlan(self.build_plan())
        self._read_sessions: Sessions | None = None

    @property
    def plan(self) -> Plan:
        """The pipeline with its plugins built, with the newest credentials."""
        return self.current_plan.plan

    def session(self, reporter: Reporter | None = None, others: Sequence[PipelineReads] = ()) -> SparkSession:
        """Return a session for the pipeline, and for ``others``, whose settings it overrides. ``reporter`` shows the steps of the start."""
        with redacted_errors(self.plan):
            make = build_submitted_session if is_submitted() else build_session
            plans = [*(other.plan for other in others), self.plan]
            plugins = [plugin for plan in reversed(plans) for plugin in plan.plugins]
            return make(plugins, {key: value for plan in plans for key, value in plan.spark_conf.items()}, reporter)

    def read(
        self,
        table: str,
        *,
        as_of: str | None = None,
        sink: str | None = None,
        own_columns: bool = False,
        current: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return a table as readers see it. ``own_columns``: also the columns of headrace and of the table format.

        ``current``: of a table with a history, the current rows without their periods.
        """
        if table == DEAD_LETTERS:
            dead_letters = self.read_dead_letters(spark)
            if dead_letters is None:
                raise ConfigError("there are no dead letters", where=f"checkpoint {self.checkpoint}")
            return dead_letters
        with redacted_errors(self.plan):
            spark = self._session(spark)
            self.plan.learn_tables(Folder(spark, self.checkpoint))
            return self._read(spark, table, as_of=as_of, sink=sink, own_columns=own_columns, current=current)

    def _read(self, spark: SparkSession, table: str, **options: Any) -> DataFrame:
        return move_to_session(read_table(self.plan, self._session_for_reads(spark), table, **options), spark)

    def read_changes(
        self,
        table: str,
        since: str,
        until: str | None = None,
        *,
        sink: str | None = None,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return the rows of a table that differ between two versions: ``op`` (c, u or d), and the structs ``before`` and ``after``.

        ``since`` and ``until``: a timestamp or a version as for ``as_of``; without ``until``, the newest version. A row that changed several
        times is returned once. ConfigError for a table without a key.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            key = read_table_key(self.plan, self._open_folders(spark), table)
            ends = [self._read(spark, table, as_of=end, sink=sink, own_columns=True) for end in (since, until)]
            prefixes = find_sink(self.plan, table, sink).hidden_prefixes
            return diff_versions(*ends, key=key, hidden_prefixes=prefixes)

    def read_feed(
        self, table: str, after: int | None = None, *, sink: str | None = None, spark: SparkSession | None = None
    ) -> DataFrame:
        """Return the changes of a table whose sink has ``changes: true``: the images of the rows, and the ``change_*`` columns.

        ``after``: the highest ``change_sequence`` that the caller has read; None returns all changes that are kept. ConfigError if changes
        after it may have been removed.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            self.plan.learn_tables(Folder(spark, self.checkpoint))
            feed = read_feed(self.plan, self._session_for_reads(spark), table, after=after, sink=sink)
            return move_to_session(feed, spark)

    def read_row_history(
        self,
        table: str,
        key: str | Mapping[str, Any],
        *,
        since: str | None = None,
        until: str | None = None,
        sink: str | None = None,
        spark: SparkSession | None = None,
    ) -> RowHistory:
        """Return the changes of one row, from the versions of its table that can be read, or from the table with its history.

        ``key``: ``"7"``, ``"id=1,region=eu"``, or a mapping. ``since`` and ``until`` choose versions; by default, the newest hundred.
        """
        with redacted_errors(self.plan):
            spark = self._session(spark)
            columns = read_table_key(self.plan, self._open_folders(spark), table)
            reader = RowReader(self.plan, self._session_for_reads(spark), table, sink)
            found = reader.read(key, columns, since, until)
            return replace(found, changes=move_to_session(found.changes, spark))

    def read_dead_letters(self, spark: SparkSession | None = None) -> DataFrame | None:
        """Return the records that could not become a row; None when there are none."""
        with redacted_errors(self.plan):
            spark = self._session(spark)
            folders, session = self._open_folders(spark), self._session_for_reads(spark)
            stores = open_stores(self.plan.dead_letter_table, folders.dead_letters)
            letters = read_all(stores, session, ReplayQueue(spark, folders.replay))
            return None if letters is None else move_to_session(letters, spark)

    def _open_folders(self, spark: SparkSession) -> CheckpointFolders:
        """Return the folders of the checkpoint, which may be missing. ConfigError for another pipeline's checkpoint."""
        folder = Folder(spark, self.checkpoint)
        read_header(folder, f"checkpoint {self.checkpoint}", self.name)
        self.plan.learn_tables(folder)
        return CheckpointFolders(folder)

    def _session_for_reads(self, spark: SparkSession) -> SparkSession:
        """Return a session for reads. It is kept: table formats change its settings, and catalogs connect once."""
        if self._read_sessions is None or self._read_sessions.spark is not spark:
            self._read_sessions = Sessions(spark, self.plan.sql_conf)
        return self._read_sessions.of("read")

    def _session(self, spark: SparkSession | None) -> SparkSession:
        spark_version()
        spark = spark or find_active_session()
        if spark is None:
            return self.session()
        check_is_session(spark)
        check_session(spark, self.plan.plugins)
        return spark
