"""What a Hudi table's commits say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The key of a commit's extra metadata that names the batch; the prefix is what has Hudi keep such keys.
PREFIX = "headrace."
MARK = f"{PREFIX}batch"
#: That of the one that says in what the rows lie.
INDEX = f"{PREFIX}index"


@dataclass(frozen=True)
class Commit:
    """A completed commit of a batch."""

    instant: str
    mark: str
    bytes: int
    #: Rows inserted or updated; None for appended log files, where rows that turn out to be late count too.
    upserted: int | None
    #: The partitions that it wrote to, as folders in the table's; an empty text where a table has none.
    partitions: tuple[str, ...] = ()


class NewestCommits:
    """The newest commits of a table with their metadata, the newest first, each read once: instants and metadata in objects of Hudi's."""

    def __init__(self, table: Any) -> None:
        self._unread = _commits(table)
        self._read: list[tuple[Any, Any]] = []

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        yield from self._read
        for commit in self._unread:
            self._read.append(commit)
            yield commit


def last_commit(commits: NewestCommits, batch: Batch) -> Commit | None:
    """The newest commit of the batch's pipeline; None when it has none."""
    for instant, metadata in commits:
        mark = metadata.getExtraMetadata().get(MARK)
        if mark is not None and mark.startswith(batch.mark_prefix):
            writes_whole_files = instant.getAction() == "commit"
            return Commit(
                instant=str(instant.requestedTime()),
                mark=str(mark),
                bytes=int(metadata.fetchTotalBytesWritten()),
                upserted=int(metadata.fetchTotalInsertRecordsWritten() + metadata.fetchTotalUpdateRecordsWritten())
                if writes_whole_files
                else None,
                partitions=tuple(str(path) for path in metadata.getPartitionToWriteStats()),
            )
    return None


def find_index(commits: NewestCommits) -> str | None:
    """In what the rows lie, as the newest batch noted it, of whichever pipeline; None when none did."""
    notes = (metadata.getExtraMetadata().get(INDEX) for _, metadata in commits)
    return next((str(note) for note in notes if note is not None), None)


def instant_of(spark: SparkSession, path: str, millis: int) -> str:
    """A time as the instants of the table there are written."""
    return format_instant(spark, open_table(spark, path), millis)


def format_instant(spark: SparkSession, table: Any, millis: int) -> str:
    """A time as a table's instants are written, in its own time zone."""
    jvm: Any = spark._jvm  # noqa: SLF001
    time = jvm.java.time.Instant.ofEpochMilli(millis).atZone(_zone(table))
    return str(time.format(_formatter(spark)))


def parse_instant(spark: SparkSession, table: Any, instant: str) -> int:
    """The time of one of a table's instants: milliseconds since 1970."""
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
    """The versions of a table that can be read, by their commits in objects of Hudi's."""

    commits: Any
    #: Those that are archived; None where none is.
    archived: Any | None
    count: int
    #: The instant of the oldest.
    oldest: str

    def count_since(self, instant: str) -> int:
        return int(self.commits.findInstantsAfterOrEquals(instant).countInstants())


def read_versions(table: Any) -> Versions | None:
    """Those of a table; None before its first commit. Where there was no clean, commits were archived by somebody else, if at all."""
    commits, archived, kept = commits_of(table), None, _read_kept(table)
    first = commits.firstInstant()
    if kept and first.isPresent():
        if kept < (begin := str(first.get().requestedTime())):
            archived = table.getArchivedTimeline(kept).getCommitsTimeline().filterCompletedInstants()
            # Not again those that a process left in both places that was killed meanwhile.
            archived = archived.findInstantsBefore(begin)
            commits = archived.mergeTimeline(commits)
        commits = commits.findInstantsAfterOrEquals(kept)
        first = commits.firstInstant()
    if not first.isPresent():
        return None
    return Versions(commits, archived, commits.countInstants(), str(first.get().requestedTime()))


def _read_kept(table: Any) -> str | None:
    """The instant from which on cleans kept all versions; None where there was no clean."""
    timeline = table.getActiveTimeline()
    cleans = timeline.getCleanerTimeline().filterCompletedInstants().getInstants()
    # Where two processes clean, the one that ends last need not have removed more.
    return (
        max((str(timeline.readCleanMetadata(c).getEarliestCommitToRetain() or "") for c in cleans), default="") or None
    )


def has_replaced_files(table: Any) -> bool:
    """Whether a commit that is not archived put other files in the place of some: a clustering, or an overwrite."""
    return bool(table.getActiveTimeline().getCompletedReplaceTimeline().countInstants())


def has_clean_since(table: Any, instant: str) -> bool:
    """Whether a clean that is not archived began after an instant."""
    cleans = table.getActiveTimeline().getCleanerTimeline().filterCompletedInstants()
    return bool(cleans.findInstantsAfter(instant).countInstants())


def recall(table: Any, versions: Versions) -> None:
    """Has Hudi's object for a table know the archived commits of these versions as if they were not archived."""
    timeline = table.getActiveTimeline()
    if versions.archived is not None:
        timeline.setInstants(versions.archived.mergeTimeline(timeline).getInstants())


def find_last_compaction(table: Any) -> str | None:
    """The instant of the newest compaction; None when there was none, or it is archived."""
    timeline = commits_of(table)
    instants = timeline.getReverseOrderedInstants().iterator()
    while instants.hasNext():
        instant = instants.next()
        # A table that is new has a commit of whole files as well.
        if instant.getAction() == "commit" and _is_compaction(timeline.readCommitMetadata(instant)):
            return str(instant.requestedTime())
    return None


def next_instant(spark: SparkSession, table: Any) -> str | None:
    """The instant after all that batches have completed, by the clock of whoever wrote them; None before a batch's first log files.

    What is planned for it is of just these commits: who completes one later does so at a later instant.
    """
    ends = [
        str(instant.getCompletionTime())
        for instant in commits_of(table).getInstants()
        if instant.getAction() == "deltacommit"
    ]
    if not ends:
        return None
    jvm: Any = spark._jvm  # noqa: SLF001
    timeline = jvm.org.apache.hudi.common.table.timeline
    return str(timeline.HoodieInstantTimeGenerator.instantTimePlusMillis(max(ends), 1))


def commits_of(table: Any) -> Any:
    """The commits of batches and compactions that are not archived, the oldest first."""
    return table.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()


def _is_compaction(metadata: Any) -> bool:
    return str(metadata.getOperationType()) == "COMPACT"


def _commits(table: Any) -> Iterator[tuple[Any, Any]]:
    timeline = commits_of(table)
    instants = timeline.getReverseOrderedInstants().iterator()
    for _ in range(MARK_SEARCH_DEPTH):
        if not instants.hasNext():
            return
        instant = instants.next()
        if instant.getAction() in ("commit", "deltacommit"):
            yield instant, timeline.readCommitMetadata(instant)


def open_table(spark: SparkSession, path: str) -> Any:
    """Hudi's own object for a table that is there, as it is now: all instants of the timeline are listed for it."""
    jvm: Any = spark._jvm  # noqa: SLF001
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    storage = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(conf)
    return jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(storage).setBasePath(path).build()
