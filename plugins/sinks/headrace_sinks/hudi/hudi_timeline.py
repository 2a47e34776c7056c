"""Timeline of a Hudi table: instants, versions, and the metadata of commits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch, ConfigError, RetriableError
from headrace.sdk.sink import TableVersion
from headrace.sdk.storage import Folder
from headrace_sinks.as_of import expired_version, to_millis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Key of a commit's extra metadata with the mark of the batch. Hudi keeps options with this prefix as metadata.
PREFIX = "headrace."
MARK = f"{PREFIX}batch"
#: Key of the description of the file layout.
INDEX = f"{PREFIX}index"
#: File of a table's properties, and the file that Hudi reads while the first one does not exist because Hudi replaces it.
_PROPERTIES, _BACKUP = "hoodie.properties", "hoodie.properties.backup"
#: Beginning of the names of an instant's files.
_INSTANT = re.compile(r"\d{14}")


@dataclass(frozen=True)
class Commit:
    """Completed commit of a batch."""

    instant: str
    mark: str
    bytes: int
    #: Rows inserted or updated; None for appended log files, whose counts include late rows.
    upserted: int | None
    #: Partitions of the commit, as folders in the table's folder; one empty string for an unpartitioned table.
    partitions: tuple[str, ...] = ()


class NewestCommits:
    """Newest commits of a table, in descending order: pairs of a HoodieInstant and its metadata, each read once."""

    def __init__(self, table: Any) -> None:
        self._unread = _read_commits(table)
        self._read: list[tuple[Any, Any]] = []

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        yield from self._read
        for commit in self._unread:
            self._read.append(commit)
            yield commit


def find_last_commit(commits: NewestCommits, batch: Batch) -> Commit | None:
    """Find the newest commit of the batch's pipeline; None when there is none."""
    for instant, metadata in commits:
        mark = metadata.getExtraMetadata().get(MARK)
        if mark is not None and mark.startswith(batch.mark_prefix):
            writes_base_files = instant.getAction() == "commit"
            return Commit(
                instant=str(instant.requestedTime()),
                mark=str(mark),
                bytes=int(metadata.fetchTotalBytesWritten()),
                upserted=int(metadata.fetchTotalInsertRecordsWritten() + metadata.fetchTotalUpdateRecordsWritten())
                if writes_base_files
                else None,
                partitions=tuple(str(path) for path in metadata.getPartitionToWriteStats()),
            )
    return None


def list_marks(commits: NewestCommits) -> Iterator[str]:
    """List the marks of the newest batches of all pipelines."""
    for _, metadata in commits:
        if (mark := metadata.getExtraMetadata().get(MARK)) is not None:
            yield str(mark)


def find_index(commits: NewestCommits) -> str | None:
    """Find the file layout in the metadata of the newest batch of any pipeline; None if there is none."""
    notes = (metadata.getExtraMetadata().get(INDEX) for _, metadata in commits)
    return next((str(note) for note in notes if note is not None), None)


def to_instant(spark: SparkSession, path: str, millis: int) -> str:
    """Convert a time to an instant of the table at a path."""
    return format_instant(spark, open_table(spark, path), millis)


def format_instant(spark: SparkSession, table: Any, millis: int) -> str:
    """Format a time as an instant in the table's time zone."""
    jvm: Any = spark._jvm  # noqa: SLF001
    time = jvm.java.time.Instant.ofEpochMilli(millis).atZone(_zone(table))
    return str(time.format(_formatter(spark)))


def parse_instant(spark: SparkSession, table: Any, instant: str) -> int:
    """Parse an instant of a table to milliseconds since 1970."""
    jvm: Any = spark._jvm  # noqa: SLF001
    time = jvm.java.time.LocalDateTime.parse(instant.ljust(17, "0"), _formatter(spark))
    return int(time.atZone(_zone(table)).toInstant().toEpochMilli())


def _formatter(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.java.time.format.DateTimeFormatter.ofPattern("yyyyMMddHHmmssSSS")


def _zone(table: Any) -> Any:
    return table.getTableConfig().getTimelineTimezone().getZoneId()


@dataclass(frozen=True)
class Versions:
    """Readable versions of a table, as Hudi timelines."""

    commits: Any
    #: Archived commits; None if there are none.
    archived: Any | None
    count: int
    #: Instant of the oldest version.
    oldest: str

    def count_since(self, instant: str) -> int:
        """Count the versions at or after an instant."""
        return int(self.commits.findInstantsAfterOrEquals(instant).countInstants())


def read_versions(table: Any) -> Versions | None:
    """Read the versions of a table; None before its first commit. Unless the table was cleaned, archived commits belong to another writer."""
    commits, archived, kept = list_commits(table), None, _read_kept(table)
    first = commits.firstInstant()
    if kept and first.isPresent():
        if kept < (begin := str(first.get().requestedTime())):
            archived = table.getArchivedTimeline(kept).getCommitsTimeline().filterCompletedInstants()
            # A process that was killed may leave commits in both timelines.
            archived = archived.findInstantsBefore(begin)
            commits = archived.mergeTimeline(commits)
        commits = commits.findInstantsAfterOrEquals(kept)
        first = commits.firstInstant()
    if not first.isPresent():
        return None
    return Versions(commits, archived, commits.countInstants(), str(first.get().requestedTime()))


def find_version(spark: SparkSession, path: str, as_of: str, where: str) -> str:
    """Return the instant of a timestamp, or ``as_of`` itself if it is an instant. ConfigError for a version that was cleaned."""
    is_instant = as_of.isdigit() and len(as_of) in (14, 17)
    instant = as_of if is_instant else to_instant(spark, path, to_millis(spark, as_of))
    versions = read_versions(open_table(spark, path))
    if versions is None or instant < versions.oldest:
        more = " (if maintenance is off, `hoodie.clean.commits.retained` and `hoodie.keep.min.commits`)"
        raise expired_version(as_of, versions.oldest if versions else None, where, more)
    return instant


def find_newest_version(spark: SparkSession, path: str) -> str | None:
    """Return the instant of the newest version of a table; None without a table or a commit."""
    if not has_table(spark, path):
        return None
    newest = list_commits(open_table(spark, path)).lastInstant()
    return str(newest.get().requestedTime()) if newest.isPresent() else None


def describe_versions(spark: SparkSession, path: str) -> list[TableVersion]:
    """Describe the readable versions of a table, the oldest first; empty without a table or a commit."""
    if not has_table(spark, path) or (versions := read_versions(table := open_table(spark, path))) is None:
        return []
    instants = [str(instant.requestedTime()) for instant in versions.commits.getInstants()]
    is_first = _read_kept(table) is None
    return [
        TableVersion(instant, parse_instant(spark, table, instant), is_first and number == 0)
        for number, instant in enumerate(instants)
    ]


def _read_kept(table: Any) -> str | None:
    """Read the instant since which cleans retained all versions; None without a clean."""
    timeline = table.getActiveTimeline()
    cleans = timeline.getCleanerTimeline().filterCompletedInstants().getInstants()
    # Of two processes that clean, the one that ends last need not have removed more.
    return (
        max((str(timeline.readCleanMetadata(c).getEarliestCommitToRetain() or "") for c in cleans), default="") or None
    )


def has_replaced_files(table: Any) -> bool:
    """Return whether an active commit replaced files: a clustering, or an overwrite."""
    return bool(table.getActiveTimeline().getCompletedReplaceTimeline().countInstants())


def has_clean_since(table: Any, instant: str) -> bool:
    """Return whether an active clean started after an instant."""
    cleans = table.getActiveTimeline().getCleanerTimeline().filterCompletedInstants()
    return bool(cleans.findInstantsAfter(instant).countInstants())


def restore_archived(table: Any, versions: Versions) -> None:
    """Add the archived commits of these versions to the table's active timeline, in memory."""
    timeline = table.getActiveTimeline()
    if versions.archived is not None:
        timeline.setInstants(versions.archived.mergeTimeline(timeline).getInstants())


def find_last_compaction(table: Any) -> str | None:
    """Find the instant of the newest compaction; None when there was none, or it is archived."""
    timeline = list_commits(table)
    instants = timeline.getReverseOrderedInstants().iterator()
    while instants.hasNext():
        instant = instants.next()
        # The first commit of a table writes base files as well.
        if instant.getAction() == "commit" and _is_compaction(timeline.readCommitMetadata(instant)):
            return str(instant.requestedTime())
    return None


def next_instant(spark: SparkSession, table: Any) -> str | None:
    """Return the instant after the last completed batch, by the clock of its writer; None before the first log files.

    A plan at this instant covers exactly these commits: later commits complete at later instants.
    """
    ends = [
        str(instant.getCompletionTime())
        for instant in list_commits(table).getInstants()
        if instant.getAction() == "deltacommit"
    ]
    if not ends:
        return None
    jvm: Any = spark._jvm  # noqa: SLF001
    timeline = jvm.org.apache.hudi.common.table.timeline
    return str(timeline.HoodieInstantTimeGenerator.instantTimePlusMillis(max(ends), 1))


def list_commits(table: Any) -> Any:
    """List the active commits of batches and compactions, in ascending order."""
    return table.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()


def _is_compaction(metadata: Any) -> bool:
    return str(metadata.getOperationType()) == "COMPACT"


def _read_commits(table: Any) -> Iterator[tuple[Any, Any]]:
    timeline = list_commits(table)
    instants = timeline.getReverseOrderedInstants().iterator()
    for _ in range(MARK_SEARCH_DEPTH):
        if not instants.hasNext():
            return
        instant = instants.next()
        if instant.getAction() in ("commit", "deltacommit"):
            yield instant, timeline.readCommitMetadata(instant)


def has_table(spark: SparkSession, path: str) -> bool:
    """Return whether there is a table at a path. Hudi writes the table's properties last: a killed process may leave none, or an empty file.

    ConfigError for a table that lost its properties.
    """
    folder = Folder(spark, f"{path}/.hoodie")
    if folder.size(_PROPERTIES):  # One request in the usual case.
        return True
    names = folder.names()
    has_backup = _BACKUP in names and folder.size(_BACKUP) > 0
    if has_backup and _PROPERTIES not in names:
        return True
    if has_backup or any(_INSTANT.match(file.rpartition("/")[2]) for file in folder.list_files()):
        raise ConfigError(
            f"the table has commits, but its file {_PROPERTIES} is missing or empty",
            where=folder.path,
            fix=f"restore {_PROPERTIES} from {_BACKUP} or another backup; or move the table's folder away, and load the table again",
        )
    return False


def discard_unfinished(spark: SparkSession, path: str) -> None:
    """Delete what a killed process left of a table that it was creating, because Hudi would reject its folder.

    RetriableError if another process has just created the table.
    """
    if Folder(spark, f"{path}/.hoodie").exists():
        if has_table(spark, path):
            raise RetriableError("another process has just created the table", where=path)
        Folder(spark, path).delete(".hoodie")


def open_table(spark: SparkSession, path: str) -> Any:
    """Open the HoodieTableMetaClient of an existing table. It lists all instants of the timeline."""
    jvm: Any = spark._jvm  # noqa: SLF001
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    storage = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(conf)
    return jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(storage).setBasePath(path).build()


def read_config(spark: SparkSession, path: str) -> Any | None:
    """Read the HoodieTableConfig of the table at a path; None when there is no table."""
    jvm: Any = spark._jvm  # noqa: SLF001
    if not has_table(spark, path):
        return None
    hudi = jvm.org.apache.hudi
    conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    storage = hudi.storage.HoodieStorageUtils.getStorage(path, conf)
    return hudi.common.table.HoodieTableConfig(storage, hudi.storage.StoragePath(f"{path}/.hoodie"))


def has_partitions(spark: SparkSession, path: str) -> bool:
    """Return whether there is a table with partitions at a path."""
    config = read_config(spark, path)
    return config is not None and bool(len(config.getPartitionFields().orElse([])))
