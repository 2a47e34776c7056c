"""Commits in the log of a Delta table, and the removal of old ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.sdk import MaintenancePolicy
from headrace.sdk.sink import TableVersion
from headrace.sdk.storage import Folder
from headrace_sinks.delta.delta_handle import LOG, DeltaHandle

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.")
#: The file in which Delta notes how far a VACUUM came.
_LAST_VACUUM = "_last_vacuum_info"
#: Properties with which a table keeps old versions for longer than the policy, and all commits in its log.
_RETENTIONS = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
_CLEANUP = "delta.enableExpiredLogCleanup"


def list_commits(handle: DeltaHandle) -> dict[int, int]:
    """List the versions in the log and the times of their commits, in milliseconds since 1970."""
    return _find_commits(_list_files(handle))


def list_versions(handle: DeltaHandle) -> list[TableVersion]:
    """List the readable versions of a table, the oldest first."""
    return choose_readable(_list_files(handle), read_last_vacuum(handle))


def find_oldest_after(handle: DeltaHandle, as_of: str | int) -> str | None:
    """Find the oldest readable version if the log has an older one of that number or at that time; None for any other version.

    ``as_of``: a number as text, or milliseconds since 1970. The log still has versions whose files were deleted.
    """
    commits = list_commits(handle)
    before = [version for version, time in commits.items() if isinstance(as_of, int) and time <= as_of]
    chosen = int(as_of) if isinstance(as_of, str) else max(before, default=None)
    oldest = next((version.version for version in list_versions(handle)), None)
    return oldest if chosen is not None and oldest is not None and chosen < int(oldest) else None


def choose_readable(files: Mapping[str, int], last_vacuum: int) -> list[TableVersion]:
    """Choose the versions whose state the log has, and whose data files no VACUUM deleted.

    ``files``: files of the log and their times. The log has the state of its first version, and of versions from a checkpoint on. A
    VACUUM deletes the files that ``last_vacuum`` and the commits before it removed from the table, not those of its own state.
    """
    commits = _find_commits(files)
    states = {0, *(int(match[1]) for match in map(_CHECKPOINT.match, files) if match)}
    first = min(states.intersection(commits), default=None)
    return [
        TableVersion(str(version), time, is_first=version == 0)
        for version, time in sorted(commits.items())
        if first is not None and version >= max(first, last_vacuum)
    ]


def _list_files(handle: DeltaHandle) -> dict[str, int]:
    """List the files of the log and the times of their last change, in milliseconds since 1970."""
    path = handle.jvm.org.apache.hadoop.fs.Path(f"{handle.path}/{LOG}")
    conf = handle.spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    found = path.getFileSystem(conf).listStatus(path)
    return {str(status.getPath().getName()): int(status.getModificationTime()) for status in found}


def _find_commits(files: Mapping[str, int]) -> dict[int, int]:
    matches = {_COMMIT.fullmatch(name): time for name, time in files.items()}
    return {int(match[1]): time for match, time in matches.items() if match}


def read_last_vacuum(handle: DeltaHandle) -> int:
    """Read the newest version of which a VACUUM deleted the files; -1 before the first VACUUM."""
    info: dict[str, Any] = json.loads(Folder(handle.spark, f"{handle.path}/{LOG}").read(_LAST_VACUUM) or "{}")
    return int(info.get("latestCommitVersionOutsideOfRetentionWindow", -1))


def find_kept_time(handle: DeltaHandle, policy: MaintenancePolicy) -> float:
    """Return for how many seconds old versions are kept: the history of the policy, or longer if properties of the table say so."""
    configs = handle.jvm.org.apache.spark.sql.delta.DeltaConfigs
    texts = [handle.properties[name] for name in _RETENTIONS if name in handle.properties]
    durations = [configs.getMilliSeconds(configs.parseCalendarInterval(text)) / 1000 for text in texts]
    return float(max([policy.history_seconds, *durations]))


def remove_old_commits(handle: DeltaHandle, seconds: float) -> None:
    """Remove commits older than ``seconds`` from the log, if a checkpoint replaces them and the table allows it.

    Delta does the same when it writes a checkpoint, but by default keeps the commits of 30 days.
    """
    if handle.properties.get(_CLEANUP) == "false":
        return
    delta, java = handle.jvm.org.apache.spark.sql.delta, handle.jvm.java.lang
    # py4j passes a small number as an Integer, and Delta requires an Option of a Long.
    gateway: Any = handle.spark.sparkContext._gateway  # noqa: SLF001
    millis = gateway.new_array(java.Long, 1)
    millis[0] = round(seconds * 1000)
    retention = handle.jvm.scala.Predef.genericWrapArray(millis).headOption()
    # Delta for Spark 4 also takes the table's entry in a catalog.
    entry = [] if handle.spark.version.startswith("3.") else [handle.jvm.scala.Option.empty()]
    log = delta.DeltaLog.forTable(handle.spark._jsparkSession, handle.path)  # noqa: SLF001
    log.cleanUpExpiredLogs(handle.refresh().java, *entry, retention, delta.TruncationGranularity.MINUTE())
