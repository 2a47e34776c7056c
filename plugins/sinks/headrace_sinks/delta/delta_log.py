"""Commits in the log of a Delta table, and the removal of old ones."""

from __future__ import annotations

import json
import re
from typing import Any

from headrace.sdk import MaintenancePolicy
from headrace.sdk.storage import Folder
from headrace_sinks.delta.delta_handle import LOG, DeltaHandle

_COMMIT = re.compile(r"(\d{20})\.json")
#: The file in which Delta notes how far a VACUUM came.
_LAST_VACUUM = "_last_vacuum_info"
#: Properties with which a table keeps old versions for longer than the policy, and all commits in its log.
_RETENTIONS = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
_CLEANUP = "delta.enableExpiredLogCleanup"


def list_commits(handle: DeltaHandle) -> dict[int, int]:
    """List the versions in the log and the times of their commits, in milliseconds since 1970."""
    path = handle.jvm.org.apache.hadoop.fs.Path(f"{handle.path}/{LOG}")
    conf = handle.spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    found = {}
    for status in path.getFileSystem(conf).listStatus(path):
        if match := _COMMIT.fullmatch(str(status.getPath().getName())):
            found[int(match[1])] = int(status.getModificationTime())
    return found


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
