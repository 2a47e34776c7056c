"""Position deletes: files of row positions, each a data file and the number of a row in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import RetriableError
from headrace.sdk.columns import quote_name
from headrace.sdk.sessions import Observation
from headrace_sinks.iceberg.marked_commit import commit_files
from headrace_sinks.iceberg.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Field ids of a file of position deletes, from Iceberg's specification.
FILE_PATH_ID, _POS_ID = 2147483546, 2147483545
_FIELD_ID = "parquet.field.id"


def is_never_partitioned(handle: TableHandle) -> bool:
    """Return whether the table never had partitions. A delete file applies only to rows of its own partition."""
    java = handle.java
    return java.specs().size() == 1 and not java.spec().isPartitioned()


def read_row_positions(handle: TableHandle, snapshot: int, columns: Sequence[str]) -> DataFrame:
    """Read the position (``_file``, ``_pos``) and some columns of each row of a snapshot."""
    from pyspark.sql import functions as F

    table = handle.spark.read.format("iceberg").option("versionAsOf", str(snapshot)).load(handle.name)
    return table.select(*map(quote_name, columns), F.col("_file"), F.col("_pos"))


def write_position_deletes(handle: TableHandle, positions: DataFrame, *, by_file: bool = False) -> list[Any]:
    """Write row positions to delete files of an unpartitioned table, and return the files.

    ``by_file``: one delete file for each data file.
    """
    from pyspark.sql import functions as F

    folder = str(handle.java.locationProvider().newDataLocation(f"positions-{uuid.uuid4().hex}"))
    deletes = [
        F.col("_file").alias("file_path", metadata={_FIELD_ID: FILE_PATH_ID}),
        F.col("_pos").alias("pos", metadata={_FIELD_ID: _POS_ID}),
    ]
    if by_file:
        split = positions.select(F.md5("_file").alias("file"), *deletes).repartition("file")
        sorted_deletes, columns = split.sortWithinPartitions("file", "pos"), ["file"]
    else:
        single = positions.select(*deletes).coalesce(1)
        sorted_deletes, columns = single.sortWithinPartitions("file_path", "pos"), []
    count = Observation(rows=F.count("*"))
    writer = count.observe(sorted_deletes).write.partitionBy(*columns)
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
    files = list(_list_written_deletes(handle, folder))
    written = count.result().get("rows")
    _check_complete(folder, files, positions.count() if written is None else written)
    return files


def _check_complete(folder: str, files: Sequence[Any], count: int) -> None:
    """Raise RetriableError when the listed files lack deletes: without them deleted rows would reappear.

    Some stores list a file only some time after it was written.
    """
    listed = sum(file.recordCount() for file in files)
    if listed != count:
        raise RetriableError(
            f"the store lists delete files with {listed} of the {count} deletes that were written",
            where=folder,
            fix="nothing is lost, and the batch is retried; do not keep tables on a store that lists new files late",
        )


def count_equality_delete_files(handle: TableHandle) -> int:
    """Count the table's files of equality deletes."""
    return handle.read_metadata("delete_files").where("content = 2").count()


def convert_equality_deletes(handle: TableHandle) -> str:
    """Commit position deletes in place of all deletes of an unpartitioned table; return a summary.

    One scan finds the deleted rows. A batch may commit at the same time: its deletes stay, and its rows are newer than the
    deletes that are replaced. A compaction at the same time may have read a data file before an equality delete: its new file
    would need that delete. Position deletes of a replaced file conflict with it, whichever of the two commits first. Iceberg
    detects this conflict for a row delta, but not for a rewrite of delete files.
    """
    handle.refresh()  # batches may have committed since the step was planned
    start = handle.snapshot
    old = list(_list_snapshot_deletes(handle, start))
    deleted = read_row_positions(handle, start.snapshotId(), ["_deleted"]).where("_deleted")
    new = write_position_deletes(handle, deleted, by_file=True)
    delta = handle.java.newRowDelta().validateFromSnapshot(start.snapshotId())
    for file in old:
        delta.removeDeletes(file)
    for file in new:
        delta.addDeletes(file)
    data_file_of = handle.jvm.org.apache.iceberg.util.ContentFileUtil.referencedDataFileLocation
    delta.validateDataFilesExist([data_file_of(file) for file in new])
    commit_files(handle, delta, new)
    return f"{len(old)} delete files into {len(new)}"


def _list_snapshot_deletes(handle: TableHandle, snapshot: Any) -> Iterator[Any]:
    """List all delete files of a snapshot."""
    java = handle.java
    for manifest in snapshot.deleteManifests(java.io()):
        reader = handle.jvm.org.apache.iceberg.ManifestFiles.readDeleteManifest(manifest, java.io(), java.specs())
        try:
            files = reader.iterator()
            while files.hasNext():
                yield files.next().copy()
        finally:
            reader.close()


def _list_written_deletes(handle: TableHandle, folder: str) -> Iterator[Any]:
    """List the files that Spark wrote into a folder, as delete files of the table."""
    java, jvm = handle.java, handle.jvm
    config = jvm.org.apache.iceberg.MetricsConfig.forPositionDelete()
    files = java.io().listPrefix(folder).iterator()
    while files.hasNext():
        file = files.next()
        if not file.location().endswith(".parquet"):
            continue
        source = java.io().newInputFile(file.location())
        metrics = jvm.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(source, config)
        builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofPositionDeletes()
        builder = builder.withPath(file.location()).withFormat("parquet").withFileSizeInBytes(file.size())
        yield builder.withMetrics(metrics).build()
