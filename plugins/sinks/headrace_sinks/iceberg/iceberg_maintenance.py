"""Maintenance of an Iceberg table: small files compacted, deletes rewritten, versions expired, by Iceberg's own actions, and
deletes by key made positions, for which it has none.

Compaction makes void what a batch reads at the same time, and the other way round, unless batches replace rows by key; all else
goes on beside a writer. Manifests are none of it: Iceberg merges them when it commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, MaintenancePolicy, MaintenanceStep, TableSize
from headrace_sinks.iceberg.compaction import MOST_BYTES, select_small_files
from headrace_sinks.iceberg.file_rewrite import find_worn_file, rewrite_file
from headrace_sinks.iceberg.iceberg_catalog import actions_of, active, forget_table, load_table
from headrace_sinks.iceberg.orphans import find_last_look, may_delete_files, remove_orphans
from headrace_sinks.iceberg.position_deletes import (
    convert_equality_deletes,
    count_equality_deletes,
    has_one_partition,
)
from headrace_sinks.iceberg.row_delta import find_noted_position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METADATA_PROPERTIES = {
    # Old metadata.json files go with each commit: of a table that has a commit a second they would be most of its bytes.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Each commit adds a manifest or two, which whoever reads the table opens one by one. Iceberg's default is a hundred.
    "commit.manifest.min-count-to-merge": "10",
}
#: Larger files are left as they are.
_LARGE_BYTES = 128 * 1024 * 1024
#: The share of a file's rows that may be gone before it is written anew.
_MOST_DELETED = 0.3
#: By how much of the history the oldest version may be older before anything is expired: each time costs a commit.
_SLACK = 1.25
_TARGET_SIZE, _DEFAULT_TARGET_SIZE = "write.target-file-size-bytes", 512 * 1024 * 1024


def plan_maintenance(spark: SparkSession, name: str, policy: MaintenancePolicy) -> Iterator[MaintenanceStep]:
    """The steps that are due for the table that Spark knows by this name."""
    for find in (
        _find_missing_properties,
        _find_small_files,
        _find_equality_deletes,
        _find_worn_files,
        _find_deletes,
        _find_old_versions,
        _find_orphans,
    ):
        with active(spark):
            java = load_table(spark, name)
            step = None if java is None or java.currentSnapshot() is None else find(spark, name, java, policy)
        if step is not None:
            yield replace(step, run=partial(_run_step, spark, name, step))


def _run_step(spark: SparkSession, name: str, step: MaintenanceStep) -> str:
    """Does a step with the table as it is now: batches may have come since it was found, and when it is tried again."""
    with active(spark):
        forget_table(spark, name)
        return step.run()


def measure_table(spark: SparkSession, name: str) -> TableSize | None:
    """The size of the table that Spark knows by this name; None when there is none. Where rows are deleted, the others are counted."""
    with active(spark):
        java = load_table(spark, name)
        if java is None or (snapshot := java.currentSnapshot()) is None:
            return None
        summary, snapshots = snapshot.summary(), java.operations().current().snapshots()
        compactions = spark.table(f"{name}.snapshots").where("operation = 'replace'")
        compacted = compactions.selectExpr("max(unix_millis(committed_at))").collect()[0][0]
        deletes = _number(summary, "total-delete-files")
        return TableSize(
            rows=spark.table(name).count() if deletes else _number(summary, "total-records"),
            bytes=_number(summary, "total-files-size"),
            files=_number(summary, "total-data-files"),
            small_files=select_small_files(_list_sizes(spark, name), _largest(java)).files,
            delete_files=deletes,
            versions=snapshots.size(),
            oldest_version=snapshots.get(0).timestampMillis(),
            maintained=compacted,
        )


def _find_missing_properties(
    _spark: SparkSession, _name: str, java: Any, _policy: MaintenancePolicy
) -> MaintenanceStep | None:
    """A table that an older headrace made, or somebody else, lacks them; what somebody has set stays."""
    missing = {key: value for key, value in METADATA_PROPERTIES.items() if key not in java.properties()}
    if not missing:
        return None

    def set_properties() -> str:
        change = java.updateProperties()
        for key, value in missing.items():
            change.set(key, value)
        change.commit()
        return "set"

    return MaintenanceStep("properties", ", ".join(missing), set_properties)


def _find_small_files(spark: SparkSession, name: str, java: Any, policy: MaintenancePolicy) -> MaintenanceStep | None:
    summary = java.currentSnapshot().summary()
    files, deletes = _number(summary, "total-data-files"), _number(summary, "total-delete-files")
    if files + deletes < policy.files:  # nothing need be listed
        return None
    sizes = _list_sizes(spark, name)
    small = select_small_files(sizes, _largest(java))
    # A file for each partition is what stays: here they count as one.
    counted = files - (len(sizes) - 1)
    if counted + deletes < policy.files or small.surplus + 1 < max(2, min(policy.files, counted)):
        return None
    exclusive = _is_alone(java)
    options = {
        "min-file-size-bytes": str(small.largest + 1),
        "min-input-files": "2",
        "max-concurrent-file-group-rewrites": "1",
        # A commit of its own, which a batch that comes after the first one refuses.
        "remove-dangling-deletes": str(exclusive).lower(),
        # Files that are not small are written anew where that is quick.
        "delete-ratio-threshold": str(_MOST_DELETED if sum(map(sum, sizes)) <= MOST_BYTES else 1.0),
    }

    def compact() -> str:
        java.refresh()  # a batch may have come since, and a try that lost to one is repeated
        action = actions_of(spark).rewriteDataFiles(java).binPack()
        for key, value in options.items():
            action = action.option(key, value)
        done = action.execute()
        return f"{done.rewrittenDataFilesCount()} files into {done.addedDataFilesCount()}"

    return MaintenanceStep(
        "compact",
        f"{small.files} files of {_megabytes(small.bytes)}",
        compact,
        exclusive=exclusive,
    )


def _find_equality_deletes(
    spark: SparkSession, name: str, java: Any, policy: MaintenancePolicy
) -> MaintenanceStep | None:
    # Each read joins them with all older rows; others than headrace may have made such, and then of partitions.
    if not _number(java.currentSnapshot().summary(), "total-equality-deletes") or not has_one_partition(java):
        return None
    count = count_equality_deletes(spark, name)
    if count < max(1, policy.files // 2):
        return None
    return MaintenanceStep(
        "convert-deletes",
        f"{count} files of deletes by key",
        lambda: convert_equality_deletes(spark, name, java),
    )


def _find_worn_files(spark: SparkSession, name: str, java: Any, _policy: MaintenancePolicy) -> MaintenanceStep | None:
    # In smaller tables compaction has them.
    summary = java.currentSnapshot().summary()
    if _number(summary, "total-files-size") <= MOST_BYTES or not _number(summary, "total-position-deletes"):
        return None
    exclusive = _is_alone(java)
    worn = find_worn_file(spark, name, _MOST_DELETED, MOST_BYTES if exclusive else None)
    if worn is None:
        return None
    return MaintenanceStep(
        "compact",
        f"a file of {_megabytes(worn.bytes)}, {worn.share:.0%} of its rows are gone",
        lambda: rewrite_file(spark, name, java, worn.path),
        exclusive=exclusive,
    )


def _find_deletes(spark: SparkSession, _name: str, java: Any, policy: MaintenancePolicy) -> MaintenanceStep | None:
    summary = java.currentSnapshot().summary()
    deletes = _number(summary, "total-delete-files")
    # One for each file that has rows is what stays.
    if deletes < policy.files // 2 + _number(summary, "total-data-files"):
        return None

    def rewrite() -> str:
        done = actions_of(spark).rewritePositionDeletes(java).option("min-input-files", "2").execute()
        return f"{done.rewrittenDeleteFilesCount()} delete files into {done.addedDeleteFilesCount()}"

    return MaintenanceStep("rewrite-deletes", f"{deletes} delete files", rewrite)


def _find_old_versions(
    _spark: SparkSession, _name: str, java: Any, policy: MaintenancePolicy
) -> MaintenanceStep | None:
    snapshots = java.operations().current().snapshots()
    latest = policy.now - policy.history_seconds * _SLACK
    # The first look costs nothing: most of the time no version is that old.
    if snapshots.size() <= MARK_SEARCH_DEPTH or snapshots.get(0).timestampMillis() > latest * 1000:
        return None
    # What has a tag stays, however old it is.
    expired = _choose_expired(java, policy).apply() if may_delete_files(java) else []
    if not any(snapshot.timestampMillis() <= latest * 1000 for snapshot in expired):
        return None

    def expire() -> str:
        java.refresh()
        _choose_expired(java, policy).cleanExpiredFiles(True).commit()
        java.refresh()
        return f"{snapshots.size()} versions, {java.operations().current().snapshots().size()} left"

    return MaintenanceStep("expire", f"{snapshots.size()} versions", expire)


def _choose_expired(java: Any, policy: MaintenancePolicy) -> Any:
    # The newest stay whatever their age: among them are the marks of batches.
    return java.expireSnapshots().expireOlderThan(round(policy.history_begins * 1000)).retainLast(MARK_SEARCH_DEPTH)


def _find_orphans(spark: SparkSession, name: str, java: Any, policy: MaintenancePolicy) -> MaintenanceStep | None:
    last = find_last_look(java)
    if last is None or policy.now - last < policy.orphans_seconds or not may_delete_files(java):
        return None
    before = policy.now - policy.orphans_seconds

    def remove() -> str:
        java.refresh()
        return remove_orphans(spark, name, java, before, policy.now)

    return MaintenanceStep("remove-orphans", "files that no version names", remove)


def _is_alone(java: Any) -> bool:
    """Whether a batch would make a compaction void: deletes by key hold for the new files too, so batches of such are not in the way."""
    return find_noted_position(java) is None


def _list_sizes(spark: SparkSession, name: str) -> list[list[int]]:
    """The bytes of the files that have rows: for each partition those of its files, the smallest first."""
    from pyspark.sql import functions as F

    files = spark.table(f"{name}.data_files")
    partition = [column for column in ("spec_id", "partition") if column in files.columns]
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    for place, size in files.select(F.xxhash64(*partition), "file_size_in_bytes").collect():
        sizes[place].append(size)
    return [sorted(found) for found in sizes.values()]


def _largest(java: Any) -> int:
    """Bytes from which on a file is not compacted with others."""
    target = java.properties().get(_TARGET_SIZE)
    return min(_LARGE_BYTES, (int(target) if target else _DEFAULT_TARGET_SIZE) * 3 // 4)


def _number(summary: Any, key: str) -> int:
    return int(summary.get(key) or 0)


def _megabytes(count: int) -> str:
    return f"{count / 1024 / 1024:.1f} MB"
