"""Current file slices of a Hudi table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class FileSlice:
    """Base file and the log files with later changes of its rows."""

    #: Id of the file group. The id of a bucket starts with the bucket's number, in eight digits.
    file_id: str
    #: Path of the base file; None when all rows are in log files.
    base_file: str | None
    base_bytes: int
    logs: int
    log_bytes: int
    #: Instant of the base file: the log files are newer.
    begin: str

    @property
    def bytes(self) -> int:
        """Size of base file and log files."""
        return self.base_bytes + self.log_bytes


def list_file_slices(spark: SparkSession, table: Any) -> list[FileSlice]:
    """List the newest file slice of each file group. Replaced file groups are left out."""
    jvm: Any = spark._jvm  # noqa: SLF001
    hudi = jvm.org.apache.hudi
    context = make_local_context(spark, table)
    metadata = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(False).build()
    view = hudi.common.table.view.FileSystemViewManager.createInMemoryFileSystemView(context, table, metadata)
    try:
        folders = hudi.common.fs.FSUtils.getAllPartitionPaths(context, table, False)
        view.loadPartitions(folders)
        return [_read(found) for folder in folders for found in view.getLatestFileSlices(folder).toList()]
    finally:
        view.close()


def make_local_context(spark: SparkSession, table: Any) -> Any:
    """Create a context in which Hudi lists files on the driver. Spark would run a task for each file of an unpartitioned table."""
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.org.apache.hudi.common.engine.HoodieLocalEngineContext(table.getStorageConf())


def count_rows(spark: SparkSession, slices: Sequence[FileSlice]) -> int | None:
    """Count the rows from the footers of base files; None when there are log files, or base files that are not Parquet."""
    files = [item.base_file for item in slices if item.base_file is not None]
    if any(item.logs for item in slices) or not all(file.endswith(".parquet") for file in files):
        return None
    return spark.read.parquet(*files).count() if files else 0


def _read(found: Any) -> FileSlice:
    base, total, logs = found.getBaseFile(), int(found.getTotalFileSize()), int(found.getLogFileCnt())
    file_id, begin = str(found.getFileId()), str(found.getBaseInstantTime())
    if not base.isPresent():
        return FileSlice(file_id, None, 0, logs, total, begin)
    size = int(base.get().getFileSize())
    return FileSlice(file_id, str(base.get().getPath()), size, logs, total - size, begin)
