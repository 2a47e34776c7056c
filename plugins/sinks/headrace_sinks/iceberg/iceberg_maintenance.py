"""Maintenance of an Iceberg table by Iceberg's own actions: compaction, rewrite of deletes, expiry, removal of orphan files.

headrace itself converts equality deletes into position deletes: Iceberg has no action for it. Iceberg merges manifests when it
commits. Compaction conflicts with a batch at the same time unless batches replace rows by key. All other steps run next to batches.

Other programs may maintain the same table. Iceberg rejects the later of two conflicting commits, and a rejected step is planned again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, MaintenancePolicy, MaintenanceStep, TableSize
from headrace_sinks.active_session import active
from headrace_sinks.iceberg.file_rewrite import find_file_with_deletes, rewrite_file
from headrace_sinks.iceberg.iceberg_catalog import evict_table
from headrace_sinks.iceberg.orphans import find_last_search, may_delete_files, remove_orphans
from headrace_sinks.iceberg.position_deletes import (
    convert_equality_deletes,
    count_equality_delete_files,
    is_never_partitioned,
)
from headrace_sinks.iceberg.row_delta import find_highest_position
from headrace_sinks.iceberg.table_handle import TableHandle
from headrace_sinks.small_files import MAX_BYTES, select_small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    #: Loads the newest version of a table; None when it does not exist.
    LoadTable = Callable[[], TableHandle | None]

METADATA_PROPERTIES = {
    # Each commit deletes old metadata.json files: with a commit a second they would be most of the table's bytes.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Each commit adds one or two manifests, which every reader opens one by one. Iceberg's default is a hundred.
    "commit.manifest.min-count-to-merge": "10",
}
#: Larger files are not compacted.
_LARGE_BYTES = 128 * 1024 * 1024
#: The ratio of deleted rows at which a file is rewritten.
_MAX_DELETE_RATIO = 0.3
#: Versions expire when the oldest is this many times older than the history, as each expiry costs a commit.
_EXPIRY_SLACK = 1.25
_TARGET_SIZE, _DEFAULT_TARGET_SIZE = "write.target-file-size-bytes", 512 * 1024 * 1024


def plan_maintenance(spark: SparkSession, load: LoadTable, policy: MaintenancePolicy) -> Iterator[MaintenanceStep]:
    """Plan the steps that are due for a table of the session."""
    for find in (
        _find_missing_properties,
        _find_small_files,
        _find_equality_deletes,
        _find_file_with_deletes,
        _find_position_deletes,
        _find_old_versions,
        _find_orphans,
    ):
        with active(spark):
            handle = load()
            step = None if handle is None or handle.snapshot is None else find(handle, policy)
        if handle is not None and step is not None:
            yield replace(step, run=partial(_run_step, spark, handle.name, step.run))


def _run_step(spark: SparkSession, name: str, run: Callable[[], str]) -> str:
    """Run a step on the current table: batches may have committed since it was planned, or since the last try."""
    with active(spark):
        evict_table(spark, name)
        return run()


def measure_table(spark: SparkSession, load: LoadTable) -> TableSize | None:
    """Measure a table of the session; None when it does not exist. Rows are counted only when the table has deletes."""
    with active(spark):
        handle = load()
        if handle is None or (snapshot := handle.snapshot) is None:
            return None
        summary, snapshots = snapshot.summary(), handle.java.operations().current().snapshots()
        compactions = handle.read_metadata("snapshots").where("operation = 'replace'")
        compacted = compactions.selectExpr("max(unix_millis(committed_at))").collect()[0][0]
        deletes = _read_number(summary, "total-delete-files")
        return TableSize(
            rows=handle.read().count() if deletes else _read_number(summary, "total-records"),
            bytes=_read_number(summary, "total-files-size"),
            files=_read_number(summary, "total-data-files"),
            small_files=select_small_files(_list_sizes(handle), _max_file_bytes(handle)).files,
            delete_files=deletes,
            versions=snapshots.size(),
            oldest_version=snapshots.get(0).timestampMillis(),
            maintained=compacted,
        )


def _find_missing_properties(handle: TableHandle, _policy: MaintenancePolicy) -> MaintenanceStep | None:
    """Set properties that a table of an older version or of another writer lacks. Existing values stay."""
    missing = {key: value for key, value in METADATA_PROPERTIES.items() if key not in handle.properties}
    if not missing:
        return None

    def set_properties() -> str:
        change = handle.java.updateProperties()
        for key, value in missing.items():
            change.set(key, value)
        change.commit()
        return "set"

    return MaintenanceStep("properties", ", ".join(missing), set_properties)


def _find_small_files(handle: TableHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    summary = handle.snapshot.summary()
    files, deletes = _read_number(summary, "total-data-files"), _read_number(summary, "total-delete-files")
    if files + deletes < policy.files:  # the files need not be listed
        return None
    sizes = _list_sizes(handle)
    small = select_small_files(sizes, _max_file_bytes(handle))
    # Each partition keeps one file: all of those count as one.
    counted = files - (len(sizes) - 1)
    if counted + deletes < policy.files or small.surplus + 1 < max(2, min(policy.files, counted)):
        return None
    exclusive = _must_run_alone(handle)
    options = {
        "min-file-size-bytes": str(small.largest + 1),
        "min-input-files": "2",
        "max-concurrent-file-group-rewrites": "1",
        # A second commit, which conflicts with a batch that commits after the first one.
        "remove-dangling-deletes": str(exclusive).lower(),
        # Files that are not small are rewritten only if that is fast.
        "delete-ratio-threshold": str(_MAX_DELETE_RATIO if sum(map(sum, sizes)) <= MAX_BYTES else 1.0),
    }

    def compact() -> str:
        handle.refresh()  # a batch may have committed since; a try that conflicted with a batch is repeated
        action = handle.actions.rewriteDataFiles(handle.java).binPack()
        for key, value in options.items():
            action = action.option(key, value)
        result = action.execute()
        return f"{result.rewrittenDataFilesCount()} files into {result.addedDataFilesCount()}"

    return MaintenanceStep(
        "compact",
        f"{small.files} files of {_to_megabytes(small.bytes)}",
        compact,
        exclusive=exclusive,
    )


def _find_equality_deletes(handle: TableHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    # Each read joins equality deletes with all older rows. Another writer may have written some for partitions, or in format
    # version 3, which has no files of position deletes.
    has_deletes = _read_number(handle.snapshot.summary(), "total-equality-deletes")
    if not has_deletes or handle.format_version != "2" or not is_never_partitioned(handle):
        return None
    count = count_equality_delete_files(handle)
    if count < max(1, policy.files // 2):
        return None
    return MaintenanceStep(
        "convert-deletes", f"{count} files of equality deletes", lambda: convert_equality_deletes(handle)
    )


def _find_file_with_deletes(handle: TableHandle, _policy: MaintenancePolicy) -> MaintenanceStep | None:
    # In smaller tables compaction rewrites these files.
    summary = handle.snapshot.summary()
    if _read_number(summary, "total-files-size") <= MAX_BYTES or not _read_number(summary, "total-position-deletes"):
        return None
    exclusive = _must_run_alone(handle)
    file = find_file_with_deletes(handle, _MAX_DELETE_RATIO, MAX_BYTES if exclusive else None)
    if file is None:
        return None
    return MaintenanceStep(
        "compact",
        f"a file of {_to_megabytes(file.bytes)}, {file.delete_ratio:.0%} of its rows are deleted",
        lambda: rewrite_file(handle, file.path),
        exclusive=exclusive,
    )


def _find_position_deletes(handle: TableHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    summary = handle.snapshot.summary()
    deletes = _read_number(summary, "total-delete-files")
    # The rewrite leaves one delete file for each data file.
    if deletes < policy.files // 2 + _read_number(summary, "total-data-files"):
        return None

    def rewrite() -> str:
        handle.refresh()
        action = handle.actions.rewritePositionDeletes(handle.java)
        result = action.option("min-input-files", "2").execute()
        return f"{result.rewrittenDeleteFilesCount()} delete files into {result.addedDeleteFilesCount()}"

    return MaintenanceStep("rewrite-deletes", f"{deletes} delete files", rewrite)


def _find_old_versions(handle: TableHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    snapshots = handle.java.operations().current().snapshots()
    latest = policy.now - policy.history_seconds * _EXPIRY_SLACK
    # The cheap check first: most of the time no version is that old.
    if snapshots.size() <= MARK_SEARCH_DEPTH or snapshots.get(0).timestampMillis() > latest * 1000:
        return None
    # Tagged versions stay, however old they are.
    expired = _select_expired(handle, policy).apply() if may_delete_files(handle) else []
    if not any(snapshot.timestampMillis() <= latest * 1000 for snapshot in expired):
        return None

    def expire() -> str:
        handle.refresh()
        _select_expired(handle, policy).cleanExpiredFiles(True).commit()
        handle.refresh()
        return f"{snapshots.size()} versions, {handle.java.operations().current().snapshots().size()} left"

    return MaintenanceStep("expire", f"{snapshots.size()} versions", expire)


def _select_expired(handle: TableHandle, policy: MaintenancePolicy) -> Any:
    # The newest snapshots stay at any age: they have the marks of batches.
    begins = round(policy.history_begins * 1000)
    # The version that was the newest at that time must remain readable.
    earlier = (int(entry.timestampMillis()) for entry in handle.java.history())
    oldest = max((time for time in earlier if time <= begins), default=begins)
    return handle.java.expireSnapshots().expireOlderThan(oldest).retainLast(MARK_SEARCH_DEPTH)


def _find_orphans(handle: TableHandle, policy: MaintenancePolicy) -> MaintenanceStep | None:
    last = find_last_search(handle)
    if last is None or policy.now - last < policy.orphans_seconds or not may_delete_files(handle):
        return None
    before = policy.now - policy.orphans_seconds

    def remove() -> str:
        handle.refresh()
        return remove_orphans(handle, before, policy.now)

    return MaintenanceStep("remove-orphans", "files that no snapshot names", remove)


def _must_run_alone(handle: TableHandle) -> bool:
    """Return whether a batch at the same time would conflict with a compaction.

    Batches with equality deletes do not conflict: their deletes apply to the compacted files too.
    """
    return find_highest_position(handle) is None


def _list_sizes(handle: TableHandle) -> list[list[int]]:
    """List the bytes of the data files of each partition, in ascending order."""
    from pyspark.sql import functions as F

    files = handle.read_metadata("data_files")
    partition = [column for column in ("spec_id", "partition") if column in files.columns]
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    for key, size in files.select(F.xxhash64(*partition), "file_size_in_bytes").collect():
        sizes[key].append(size)
    return [sorted(found) for found in sizes.values()]


def _max_file_bytes(handle: TableHandle) -> int:
    """Return the size above which a file is not compacted."""
    target = handle.properties.get(_TARGET_SIZE)
    return min(_LARGE_BYTES, (int(target) if target else _DEFAULT_TARGET_SIZE) * 3 // 4)


def _read_number(summary: Any, key: str) -> int:
    return int(summary.get(key) or 0)


def _to_megabytes(count: int) -> str:
    return f"{count / 1024 / 1024:.1f} MB"
