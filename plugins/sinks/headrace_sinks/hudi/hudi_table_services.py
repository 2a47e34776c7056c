"""Maintenance of a Hudi table by Hudi's table services: compaction, cleaning and archiving.

By default Hudi runs them in its commits. Here they run next to batches. Only the plan of a compaction is made between two batches:
log files of later batches belong to the compacted base files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, MaintenancePolicy, MaintenanceStep, TableSize
from headrace.sdk.changes import POSITION
from headrace_sinks.hudi import hudi_timeline
from headrace_sinks.hudi.file_slices import FileSlice, count_rows, list_file_slices, make_local_context
from headrace_sinks.hudi.hudi_clock import wait_for_instants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Configured options with these prefixes leave a service to Hudi's commits. The table version is one of them: before version 8
#: log files that are written during a compaction may be lost.
_COMPACTION_OPTIONS = ("hoodie.compact.", "hoodie.table.services.", "hoodie.write.table.version")
_EXPIRY_OPTIONS = ("hoodie.clean", "hoodie.archive.", "hoodie.keep.", "hoodie.table.services.")
#: Opening a log file takes as long as reading this many bytes of a base file.
_OPEN_BYTES = 1024 * 1024
#: Commits that are archived together, as each run takes a fraction of a second.
_ARCHIVED_AT_ONCE = 25
#: Commits that may have started before a compaction was planned and completed after.
_COMMITS_AT_ONCE = 10
#: Parallelism of deletes. Hudi's defaults start up to a hundred tasks, and each takes longer than one delete.
_DELETES_AT_ONCE = "8"
#: Versions expire when the oldest is this many times older than the history.
_SLACK = 1.25
#: Options of a clean. The number of retained commits is set for each plan.
_EXPIRY = {
    "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
    "hoodie.clean.trigger.max.commits": "1",
    # An incremental clean reads the changed files from commits, but not from archived ones.
    "hoodie.clean.incremental.enabled": "false",
    "hoodie.clean.parallelism": _DELETES_AT_ONCE,
}
#: Hudi writes a heartbeat file during a compaction, which other processes check, only in this concurrency mode.
_HEARTBEAT = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


def list_inline_options(options: Mapping[str, str]) -> dict[str, str]:
    """List the options of a batch that turn off the services which maintenance runs. ``options``: the configured ones."""
    off: dict[str, str] = {}
    if _is_managed(_COMPACTION_OPTIONS, options):
        off["hoodie.compact.inline"] = "false"
    if _is_managed(_EXPIRY_OPTIONS, options):
        off |= {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    return off


@dataclass(frozen=True)
class TableServices:
    """Hudi's services for an existing table. ``options``: options of the writer; ``own_options``: the options among them that the user set."""

    spark: SparkSession
    path: str
    options: Mapping[str, str]
    own_options: Mapping[str, str]

    def plan(self, policy: MaintenancePolicy) -> Iterator[MaintenanceStep]:
        """Plan the steps that are due. RetriableError if the table has later instants than the clock."""
        table = hudi_timeline.open_table(self.spark, self.path)
        wait_for_instants(self.spark, table)
        if POSITION not in table.getTableConfig().getOrderingFields():
            return  # Another writer maintains its table until a takeover.
        finders: list[Callable[[Any, MaintenancePolicy], MaintenanceStep | None]] = []
        if _is_managed(_COMPACTION_OPTIONS, self.own_options):
            # The first search finds plans of a killed process, the last one the plan that was just made.
            finders += [self._find_planned, self._find_logs, self._find_planned]
        if _is_managed(_EXPIRY_OPTIONS, self.own_options):
            finders += [self._find_old_versions, self._find_old_commits]
        for find in finders:
            step = find(hudi_timeline.open_table(self.spark, self.path), policy)
            if step is not None:
                yield step

    def measure(self) -> TableSize | None:
        """Measure the table; None before its first commit. Rows are not counted when there are log files."""
        table = hudi_timeline.open_table(self.spark, self.path)
        versions = hudi_timeline.read_versions(table)
        if versions is None:
            return None
        slices, last = list_file_slices(self.spark, table), hudi_timeline.find_last_compaction(table)
        return TableSize(
            rows=count_rows(self.spark, slices),
            bytes=sum(item.bytes for item in slices),
            files=sum(item.base_file is not None for item in slices),
            delete_files=sum(item.logs for item in slices),
            versions=versions.count,
            oldest_version=hudi_timeline.parse_instant(self.spark, table, versions.oldest),
            maintained=hudi_timeline.parse_instant(self.spark, table, last) if last else None,
        )

    def _find_logs(self, table: Any, policy: MaintenancePolicy) -> MaintenanceStep | None:
        if str(table.getTableType()) != "MERGE_ON_READ" or list_planned(table):
            return None
        # A commit adds at most one log file to a file group: after few commits nothing needs to be listed.
        since = self._hudi.common.util.CompactionUtils.getCompletedDeltaCommitsSinceLatestCompaction(
            table.getActiveTimeline()
        )
        if not since.isPresent() or since.get().getLeft().countInstants() < min(policy.files, MARK_SEARCH_DEPTH):
            return None
        slices = [item for item in list_file_slices(self.spark, table) if item.logs]
        if not _is_worth_compacting(slices, policy.files):
            return None

        def plan_compaction() -> str:
            # Hudi would list the commits and then read the clock: a commit that another process completes in between would be
            # older than the compaction without being part of it, and lost. The table is opened again, as an instant may have
            # been compacted since.
            instant = hudi_timeline.next_instant(self.spark, hudi_timeline.open_table(self.spark, self.path))
            with self.open_client({"hoodie.compact.inline.max.delta.commits": "1"}) as client:
                nothing = self._hudi.common.util.Option.empty()
                is_planned = instant is not None and client.scheduleCompactionAtInstant(instant, nothing)
            return "planned" if is_planned else "nothing to compact"

        return MaintenanceStep("compact", _describe(slices), plan_compaction, exclusive=True)

    def _find_planned(self, table: Any, _: MaintenancePolicy) -> MaintenanceStep | None:
        """Find compactions that were planned and not run: by the previous step, or by a process that was killed."""
        if not (planned := list_planned(table)):
            return None
        with self.open_client(_HEARTBEAT) as client:
            instants = [instant for instant in planned if client.getHeartbeatClient().isHeartbeatExpired(instant)]
        if not instants:
            return None
        plan_of = self._hudi.common.util.CompactionUtils.getCompactionPlan
        operations = [operation for instant in instants for operation in plan_of(table, instant).getOperations()]
        logs = sum(operation.getDeltaFilePaths().size() for operation in operations)

        def compact() -> str:
            left = list_planned(hudi_timeline.open_table(self.spark, self.path))
            with self.open_client(_HEARTBEAT) as client:
                for instant in set(instants).intersection(left):
                    client.compact(instant, True)
            return f"{logs} log files into {len(operations)}"

        return MaintenanceStep("compact", f"{logs} log files, as planned", compact, exclusive=self._has_metadata_table)

    def _find_old_versions(self, table: Any, policy: MaintenancePolicy) -> MaintenanceStep | None:
        versions = hudi_timeline.read_versions(table)
        if versions is None:
            return None
        age = policy.now - hudi_timeline.parse_instant(self.spark, table, versions.oldest) / 1000
        if age < policy.history_seconds * _SLACK:
            return None
        with self.open_client(_EXPIRY) as client:
            if self._plan_clean(client, policy) is None:
                return None

        def expire() -> str:
            count = self._count_versions()
            with self.open_client(_EXPIRY) as client:
                if (plan := self._plan_clean(client, policy)) is not None:
                    self._clean(client, plan)
            return f"{count} versions, {self._count_versions()} left"

        return MaintenanceStep("expire", f"{versions.count} versions", expire, exclusive=self._has_metadata_table)

    def _plan_clean(self, client: Any, policy: MaintenancePolicy) -> Any | None:
        """Plan the removal of files that no retained version needs; None when there are none.

        The retained versions include archived commits, which Hudi alone would not count. They are counted in the timeline of the plan,
        because other processes may commit at any time: each of their commits would take the place of an older version.
        """
        context = make_local_context(self.spark, hudi_timeline.open_table(self.spark, self.path))
        table = self._hudi.table.HoodieSparkTable.create(client.getConfig(), context)
        timeline = table.getMetaClient()
        versions = hudi_timeline.read_versions(timeline)
        if versions is None:
            return None
        since = hudi_timeline.format_instant(self.spark, timeline, round(policy.history_begins * 1000))
        # The newest version at that time must remain readable.
        kept = versions.count_since(since) + 1
        client.getConfig().setValue("hoodie.clean.commits.retained", str(kept))
        hudi_timeline.restore_archived(timeline, versions)
        plan = table.createCleanerPlan(context, self._hudi.common.util.Option.empty())
        return plan.get() if plan.isPresent() else None

    def _count_versions(self) -> int:
        versions = hudi_timeline.read_versions(hudi_timeline.open_table(self.spark, self.path))
        return versions.count if versions else 0

    def _clean(self, client: Any, plan: Any) -> None:
        """Run the planned clean, and earlier plans of processes that were killed."""
        table, state = (
            hudi_timeline.open_table(self.spark, self.path),
            self._hudi.common.table.timeline.HoodieInstant.State,
        )
        instant = table.createNewInstantTime(False)
        requested = table.createNewInstant(state.REQUESTED, "clean", instant)
        table.getActiveTimeline().saveToCleanRequested(requested, self._hudi.common.util.Option.of(plan))
        context = client.getEngineContext()
        self._hudi.table.HoodieSparkTable.create(client.getConfig(), context).clean(context, instant)

    def _plan_no_clean(self, versions: hudi_timeline.Versions) -> Any:
        """Build a plan that removes nothing and records the oldest readable version."""
        model, java = self._hudi.avro.model, self.spark._jvm.java.util  # type: ignore[union-attr]  # noqa: SLF001
        last = str(versions.commits.lastInstant().get().requestedTime())
        oldest = model.HoodieActionInstant(versions.oldest, "commit", "COMPLETED")
        version = self._hudi.table.action.clean.CleanPlanner.LATEST_CLEAN_PLAN_VERSION
        maps = [java.HashMap() for _ in range(3)]
        return model.HoodieCleanerPlan(
            oldest, last, "KEEP_LATEST_COMMITS", maps[0], version, maps[1], java.ArrayList(), maps[2]
        )

    def _find_old_commits(self, table: Any, _: MaintenancePolicy) -> MaintenanceStep | None:
        """Find commits to archive, so that batches and readers list fewer of them."""
        if self._find_archive_limits(table) is None:
            return None
        count = hudi_timeline.list_commits(table).countInstants()
        return MaintenanceStep("archive", f"{count} commits", self._archive, exclusive=self._has_metadata_table)

    def _find_archive_limits(self, table: Any) -> tuple[int, int] | None:
        """Find the fewest and the most commits that stay active; None when there is nothing to archive."""
        commits = hudi_timeline.list_commits(table)
        if (count := commits.countInstants()) <= MARK_SEARCH_DEPTH + _ARCHIVED_AT_ONCE:
            return None
        # Hudi archives nothing after a savepoint's commit. With the option to do so, it no longer reads the savepoint correctly.
        if table.getActiveTimeline().getSavePointTimeline().firstInstant().isPresent():
            return None
        # The commits that stay include the marks of batches and the commits of log files that are not compacted yet.
        begin = min((item.begin for item in list_file_slices(self.spark, table) if item.logs), default=None)
        since = commits.findInstantsAfterOrEquals(begin).countInstants() if begin else 0
        fewest = max(since + _COMMITS_AT_ONCE, MARK_SEARCH_DEPTH)
        most = fewest + max(_ARCHIVED_AT_ONCE, fewest // 4)
        return (fewest, most) if count > most else None

    def _archive(self) -> str:
        table = hudi_timeline.open_table(self.spark, self.path)
        commits, limits = hudi_timeline.list_commits(table), self._find_archive_limits(table)
        if limits is None:
            return "nothing to archive"
        count, (fewest, most) = commits.countInstants(), limits
        options = {
            "hoodie.clean.commits.retained": "1",
            "hoodie.keep.min.commits": str(fewest),
            "hoodie.keep.max.commits": str(most),
            "hoodie.archive.delete.parallelism": _DELETES_AT_ONCE,
        }
        # A clean at this instant stays active, as enough of the remaining commits are newer.
        recent = str(commits.nthInstant(count - 1 - fewest // 2).get().requestedTime())
        with self.open_client(options) as client:
            # Cleans are archived with commits, and they record the oldest readable version.
            if not hudi_timeline.has_clean_since(table, recent) and (versions := hudi_timeline.read_versions(table)):
                self._clean(client, self._plan_no_clean(versions))
            client.archive()
        left = hudi_timeline.list_commits(hudi_timeline.open_table(self.spark, self.path)).countInstants()
        return f"{count} commits, {left} left"

    @property
    def _has_metadata_table(self) -> bool:
        """Whether each commit also writes to the metadata table, which allows one writer at a time."""
        return {**self.options, **self.own_options}["hoodie.metadata.enable"].lower() == "true"

    @property
    def _hudi(self) -> Any:
        jvm: Any = self.spark._jvm  # noqa: SLF001
        return jvm.org.apache.hudi

    @contextmanager
    def open_client(self, options: Mapping[str, str]) -> Iterator[Any]:
        """Open Hudi's write client; configured options override ``options``."""
        table = hudi_timeline.open_table(self.spark, self.path)
        keys = ",".join(table.getTableConfig().getRecordKeyFields().orElse([]))
        merged = {**self.options, "hoodie.datasource.write.recordkey.field": keys, **options, **self.own_options}
        make = self._hudi.DataSourceUtils.createHoodieClient
        client = make(self.spark._jsc, "", self.path, merged["hoodie.table.name"], merged)  # noqa: SLF001
        with _set_task_properties(self.spark):
            try:
                yield client
            finally:
                client.close()


@contextmanager
def _set_task_properties(spark: SparkSession) -> Iterator[None]:
    """Pass the session's settings for ancient dates in files to tasks that run outside of queries."""
    context: Any = spark.sparkContext
    settings = {row.key: row.value for row in spark.sql("SET").collect() if "RebaseModeIn" in row.key}
    for key, value in settings.items():
        context.setLocalProperty(key, value)
    try:
        yield
    finally:
        for key in settings:
            context.setLocalProperty(key, None)


def _is_managed(prefixes: tuple[str, ...], options: Mapping[str, str]) -> bool:
    return not any(key.startswith(prefixes) for key in options)


def list_planned(table: Any) -> list[str]:
    """List the compactions of a table that are planned and not complete."""
    pending = table.getActiveTimeline().filterPendingCompactionTimeline()
    return [str(instant.requestedTime()) for instant in pending.getInstants()]


def _is_worth_compacting(slices: list[FileSlice], files: int) -> bool:
    """Return whether there are many log files per base file, and reading them takes as long as reading the base files.

    A row is therefore rewritten each time the amount to read doubles, and not after a fixed number of batches.
    """
    logs = sum(item.logs for item in slices)
    if not slices or logs < files * len(slices):
        return False
    return logs * _OPEN_BYTES + sum(item.log_bytes for item in slices) >= sum(item.base_bytes for item in slices)


def _describe(slices: list[FileSlice]) -> str:
    logs, size = sum(item.logs for item in slices), sum(item.log_bytes for item in slices)
    return f"{logs} log files of {size / 1024 / 1024:.1f} MB"
