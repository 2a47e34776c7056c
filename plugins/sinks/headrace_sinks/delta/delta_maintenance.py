"""Maintenance of a Delta table by Delta's own commands: OPTIMIZE, VACUUM, and the removal of old commits from the log.

A compaction conflicts with a batch at the same time: Delta rejects the later of two commits that change the same files. All other steps
run next to batches. Other programs may maintain the same table; a rejected step is planned again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.sdk import MaintenancePolicy, MaintenanceStep, TableSize
from headrace_sinks.active_session import active
from headrace_sinks.delta.delta_folders import find_other_file
from headrace_sinks.delta.delta_handle import DeltaHandle, find_prefix_length
from headrace_sinks.delta.delta_log import find_kept_time, list_commits, read_last_vacuum, remove_old_commits
from headrace_sinks.small_files import MAX_BYTES, CompactionCandidates, select_small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The table property with the time of the last search for orphan files, in milliseconds since 1970. Without it, only tables that
#: headrace created are searched.
ORPHANS_PROPERTY = "headrace.orphans"
#: Larger files are not compacted.
_LARGE_BYTES = 128 * 1024 * 1024
#: The ratio of deleted rows at which a file is rewritten.
_MAX_DELETE_RATIO = 0.3
#: Versions expire when the oldest is this many times older than the history, as each expiry lists the log.
_EXPIRY_SLACK = 1.25
_OPTIMIZE = "spark.databricks.delta.optimize"
#: Delta's check that a VACUUM keeps the files of a week. Here the policy of the pipeline file decides.
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
#: The commits by which VACUUM reports itself. They would expire too, by a further VACUUM.
_VACUUM_COMMITS = "spark.databricks.delta.vacuum.logging.enabled"
#: From 4.1 on, Delta ignores the hours of a VACUUM, and a property of the table decides.
_IGNORES_HOURS = "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled"


@dataclass(frozen=True)
class DataFiles:
    """Data files of a table: bytes and ratio of deleted rows of each file, by partition, in ascending order."""

    partitions: Sequence[Sequence[tuple[int, float]]]

    @classmethod
    def read(cls, handle: DeltaHandle) -> DataFiles:
        """List the files of a version."""
        from pyspark.sql import functions as F

        files = handle.to_frame(handle.java.allFiles().toDF())
        rows = F.get_json_object("stats", "$.numRecords").cast("double")
        deleted = F.coalesce(F.col("deletionVector.cardinality") / rows, F.lit(0.0))
        found = files.select(F.to_json("partitionValues"), "size", deleted).collect()
        partitions: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for partition, size, ratio in found:
            partitions[partition].append((size, ratio))
        return cls([sorted(files) for files in partitions.values()])

    @property
    def sizes(self) -> list[list[int]]:
        """Bytes of the files of each partition, in ascending order."""
        return [[size for size, _ in files] for files in self.partitions]

    def choose_delete_ratio(self) -> float | None:
        """Choose the ratio of deleted rows above which files are rewritten, ``MAX_BYTES`` or one file at most; None for no file."""
        files = sorted(((ratio, size) for part in self.partitions for size, ratio in part), reverse=True)
        total, lowest = 0, None
        for ratio, size in files:
            if ratio <= _MAX_DELETE_RATIO or (lowest is not None and total + size > MAX_BYTES):
                break
            total, lowest = total + size, ratio
        # Delta rewrites files above the ratio.
        return None if lowest is None else lowest - 1e-9


def plan_maintenance(spark: SparkSession, path: str, policy: MaintenancePolicy) -> Iterator[MaintenanceStep]:
    """Plan the steps that are due for a table."""
    for find in (_find_small_files, _find_old_versions, _find_orphans):
        with active(spark):
            handle = DeltaHandle.load(spark, path)
            step = None if handle is None else find(handle, policy)
        if step is not None:
            yield replace(step, run=partial(_run_step, spark, step.run))


def _run_step(spark: SparkSession, run: Callable[[], str]) -> str:
    with active(spark):
        return run()


def measure_table(spark: SparkSession, path: str) -> TableSize | None:
    """Measure a table; None when it does not exist."""
    from pyspark.sql import functions as F

    with active(spark):
        handle = DeltaHandle.load(spark, path)
        if handle is None:
            return None
        files = handle.to_frame(handle.java.allFiles().toDF())
        rows = F.get_json_object("stats", "$.numRecords").cast("bigint")
        rows = rows - F.coalesce(F.col("deletionVector.cardinality"), F.lit(0))
        known = files.agg(F.sum(rows), F.count_if(rows.isNull())).collect()[0]
        commits = list_commits(handle)
        optimized = handle.to_frame(handle.table.history()).where("operation = 'OPTIMIZE'")
        return TableSize(
            rows=None if known[1] else known[0] or 0,
            bytes=int(handle.java.sizeInBytes()),
            files=int(handle.java.numOfFiles()),
            small_files=select_small_files(DataFiles.read(handle).sizes, _LARGE_BYTES).files,
            delete_files=handle.count_deletion_vectors(),
            versions=len(commits),
            oldest_version=min(commits.values(), default=None),
            maintained=optimized.selectExpr("max(unix_millis(timestamp))").collect()[0][0],
        )


def _find_small_files(handle: DeltaHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    count, deletes = int(handle.java.numOfFiles()), handle.count_deletion_vectors()
    if count + deletes < policy.files:  # the files need not be listed
        return None
    files = DataFiles.read(handle)
    # Each partition keeps one file: all of those count as one.
    small, counted = select_small_files(files.sizes, _LARGE_BYTES), count - (len(files.partitions) - 1)
    has_many = counted + deletes >= policy.files and small.surplus + 1 >= max(2, min(policy.files, counted))
    ratio = files.choose_delete_ratio()
    if not has_many and ratio is None:
        return None
    chosen = small if has_many else CompactionCandidates()
    rewritten = sum(deleted > (2 if ratio is None else ratio) for part in files.partitions for _, deleted in part)
    what = [f"{chosen.files} files of {chosen.bytes / 1024 / 1024:.1f} MB"] if chosen.files else []
    what += [f"{rewritten} files with deleted rows"] if rewritten else []
    options = {
        f"{_OPTIMIZE}.minFileSize": str(chosen.largest + 1),
        f"{_OPTIMIZE}.maxDeletedRowsRatio": str(1.0 if ratio is None else ratio),
    }
    return MaintenanceStep("compact", " and ".join(what), partial(_compact, handle, options), exclusive=True)


def _compact(handle: DeltaHandle, options: Mapping[str, str]) -> str:
    with _settings(handle.spark, options):
        metrics = handle.to_frame(handle.table.optimize().executeCompaction()).select("metrics.*").collect()[0]
    return f"{metrics['numFilesRemoved']} files into {metrics['numFilesAdded']}"


def _find_old_versions(handle: DeltaHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    commits, last = list_commits(handle), read_last_vacuum(handle)
    # Versions that the last VACUUM has expired may still be in the log.
    oldest, kept = min((version for version in commits if version > last), default=None), find_kept_time(handle, policy)
    if oldest is None or commits[oldest] > (policy.now - kept * _EXPIRY_SLACK) * 1000:
        return None
    # VACUUM LITE reads all commits since the last VACUUM. A full one deletes files that it finds in the folder.
    is_full = oldest > last + 1
    if is_full and find_last_search(handle) is None:
        return None

    def expire() -> str:
        if is_full and (other := _vacuum_folder(handle, policy)):
            return other
        if not is_full:
            _vacuum(handle, policy, kept, "LITE")
        remove_old_commits(handle, _to_system_age(policy, kept))
        return f"{len(commits)} versions, {len(list_commits(handle))} left"

    return MaintenanceStep("expire", f"{len(commits)} versions", expire)


def _find_orphans(handle: DeltaHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    searched = find_last_search(handle)
    if searched is None or policy.now - searched < policy.orphans_seconds:
        return None

    def remove() -> str:
        other = _vacuum_folder(handle, policy)
        handle.set_properties({ORPHANS_PROPERTY: str(round(policy.now * 1000))})
        return other or "removed"

    return MaintenanceStep("remove-orphans", "files that no version references", remove)


def find_last_search(handle: DeltaHandle) -> float | None:
    """Find the time of the last search for orphans, in seconds since 1970; None when the table must not be searched.

    The folder of a table of another program may have files that do not belong to the table.
    """
    created = handle.metadata.get("createdTime") if handle.is_own else None
    noted = str(handle.properties.get(ORPHANS_PROPERTY) or created)
    return int(noted) / 1000 if noted.isdigit() else None


def _vacuum_folder(handle: DeltaHandle, policy: MaintenancePolicy) -> str | None:
    """Delete orphans in the folder of a table. Return the reason if the folder has files of another program, which stay."""
    other = find_other_file(handle.spark, handle.path, handle.partition_columns, find_prefix_length(handle.properties))
    if other is not None:
        return f"none: {other!r} in the folder of the table is not a file of this table"
    _vacuum(handle, policy, max(policy.orphans_seconds, find_kept_time(handle, policy)), "FULL")
    return None


def _vacuum(handle: DeltaHandle, policy: MaintenancePolicy, seconds: float, kind: str) -> None:
    """Delete files that no version of the last ``seconds`` references. LITE: only files that a commit removed."""
    with _settings(handle.spark, dict.fromkeys((_RETENTION_CHECK, _VACUUM_COMMITS, _IGNORES_HOURS), "false")):
        hours = _to_system_age(policy, seconds) / 3600
        handle.spark.sql(f"VACUUM {handle.sql_name} {kind} RETAIN {hours:.6f} HOURS").collect()


def _to_system_age(policy: MaintenancePolicy, seconds: float) -> float:
    """Return the age by the system's clock, which Delta reads, of a file with an age by the clock of the policy, which never jumps ahead."""
    return seconds + max(0.0, time.time() - policy.now)


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of the session, which is headrace's own clone, while a command runs."""
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
