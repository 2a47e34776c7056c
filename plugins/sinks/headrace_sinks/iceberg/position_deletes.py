"""Position deletes: files of places, each a file of rows and a number in it; every reader of deletes reads them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import RetriableError
from headrace.sdk.columns import quote_name
from headrace.sdk.sessions import Observation
from headrace_sinks.iceberg.marked_commit import commit_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Field ids of a file of position deletes, by Iceberg's specification.
FILE_PATH_ID, _POS_ID = 2147483546, 2147483545
_FIELD_ID = "parquet.field.id"


def has_one_partition(java: Any) -> bool:
    """Whether a table never had partitions: a file of deletes is for rows of its own partition."""
    return java.specs().size() == 1 and not java.spec().isPartitioned()


def read_places(spark: SparkSession, name: str, snapshot: int, columns: Sequence[str]) -> DataFrame:
    """Where each row of a version is (``_file``, ``_pos``), and some of its columns."""
    from pyspark.sql import functions as F

    table = spark.read.option("snapshot-id", str(snapshot)).table(name)
    return table.select(*map(quote_name, columns), F.col("_file"), F.col("_pos"))


def write_places(spark: SparkSession, java: Any, places: DataFrame, *, by_file: bool = False) -> list[Any]:
    """Files of places, as deletes of a table without partitions; ``by_file``: one for each file of rows."""
    from pyspark.sql import functions as F

    folder = str(java.locationProvider().newDataLocation(f"positions-{uuid.uuid4().hex}"))
    deletes = [
        F.col("_file").alias("file_path", metadata={_FIELD_ID: FILE_PATH_ID}),
        F.col("_pos").alias("pos", metadata={_FIELD_ID: _POS_ID}),
    ]
    if by_file:
        split = places.select(F.md5("_file").alias("file"), *deletes).repartition("file")
        sorted_places, columns = split.sortWithinPartitions("file", "pos"), ["file"]
    else:
        sorted_places, columns = places.select(*deletes).coalesce(1).sortWithinPartitions("file_path", "pos"), []
    count = Observation(rows=F.count("*"))
    writer = count.observe(sorted_places).write.partitionBy(*columns)
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
    files = list(_list_deletes(spark, java, folder))
    written = count.result().get("rows")
    _check_complete(folder, files, places.count() if written is None else written)
    return files


def _check_complete(folder: str, files: Sequence[Any], count: int) -> None:
    """Some stores list a file some time after it was written: without its places rows would be back."""
    listed = sum(file.recordCount() for file in files)
    if listed != count:
        raise RetriableError(
            f"of {count} deletes that were written {listed} are in the files that are listed",
            where=folder,
            fix="nothing is lost, and it is tried again; a store that lists files late should not have tables",
        )


def count_equality_deletes(spark: SparkSession, name: str) -> int:
    """The files of a table that delete by equality."""
    return spark.table(f"{name}.delete_files").where("content = 2").count()


def convert_equality_deletes(spark: SparkSession, name: str, java: Any) -> str:
    """Commits position deletes in place of all deletes of a table without partitions; says what came of it.

    One scan finds the rows that are gone. A batch that commits meanwhile is not in the way: its deletes stay, and what it added is
    newer than those that go.
    """
    java.refresh()  # batches may have come since it was found that this is due
    start = java.currentSnapshot()
    old = list(_list_delete_files(spark, java, start))
    gone = read_places(spark, name, start.snapshotId(), ["_deleted"]).where("_deleted")
    new = write_places(spark, java, gone, by_file=True)
    rewrite = java.newRewrite().validateFromSnapshot(start.snapshotId())
    for file in old:
        rewrite.deleteFile(file)
    for file in new:
        rewrite.addFile(file)
    commit_files(spark, java, rewrite, new)
    return f"{len(old)} delete files into {len(new)}"


def _list_delete_files(spark: SparkSession, java: Any, snapshot: Any) -> Iterator[Any]:
    """All files of deletes that a snapshot has."""
    jvm: Any = spark._jvm  # noqa: SLF001
    for manifest in snapshot.deleteManifests(java.io()):
        reader = jvm.org.apache.iceberg.ManifestFiles.readDeleteManifest(manifest, java.io(), java.specs())
        try:
            files = reader.iterator()
            while files.hasNext():
                yield files.next().copy()
        finally:
            reader.close()


def _list_deletes(spark: SparkSession, java: Any, folder: str) -> Iterator[Any]:
    """The files that Spark wrote into a folder, as deletes of the table."""
    jvm: Any = spark._jvm  # noqa: SLF001
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
