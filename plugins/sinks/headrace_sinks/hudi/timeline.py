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


def last_commit(spark: SparkSession, path: str, batch: Batch) -> Commit | None:
    """The newest commit of the batch's pipeline; None when it has none."""
    for instant, metadata in _commits(open_table(spark, path)):
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


def instant_of(spark: SparkSession, path: str, millis: int) -> str:
    """A time as the table's instants are written, in the table's own time zone."""
    jvm: Any = spark._jvm  # noqa: SLF001
    zone = open_table(spark, path).getTableConfig().getTimelineTimezone().getZoneId()
    time = jvm.java.time.Instant.ofEpochMilli(millis).atZone(zone)
    return str(time.format(jvm.java.time.format.DateTimeFormatter.ofPattern("yyyyMMddHHmmssSSS")))


def oldest_instant(spark: SparkSession, path: str) -> str | None:
    """The oldest version that can still be read; None when there is none."""
    table = open_table(spark, path)
    first = table.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().firstInstant()
    return str(first.get().requestedTime()) if first.isPresent() else None


def _commits(table: Any) -> Iterator[tuple[Any, Any]]:
    timeline = table.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    instants = timeline.getReverseOrderedInstants().iterator()
    for _ in range(MARK_SEARCH_DEPTH):
        if not instants.hasNext():
            return
        instant = instants.next()
        if instant.getAction() in ("commit", "deltacommit"):
            yield instant, timeline.readCommitMetadata(instant)


def open_table(spark: SparkSession, path: str) -> Any:
    """Hudi's own object for a table that is there."""
    jvm: Any = spark._jvm  # noqa: SLF001
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    storage = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(conf)
    return jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(storage).setBasePath(path).build()
