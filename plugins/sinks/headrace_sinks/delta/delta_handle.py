"""Delta table in a folder, with its version, schema and marks of batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch
from headrace.sdk.changes import POSITION
from headrace.sdk.storage import Folder
from headrace_sinks.delta.batch_versions import BatchVersion, find_app_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Folder of the commits of a table.
LOG = "_delta_log"
#: Key in the metadata of the column POSITION of a table that headrace created. Delta's writer does not take other properties.
CREATED = "headrace.created"
#: Table properties that change the names of columns and of folders in files.
MAPPING, _RANDOM, _RANDOM_LENGTH = "delta.columnMapping.mode", "delta.randomizeFilePrefixes", "delta.randomPrefixLength"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
#: Delta's check that the session's catalog is Delta's. Tables in folders need no catalog.
_CATALOG_CHECK = "spark.databricks.delta.requiredSparkConfsCheck.enabled"
#: Delta would add all columns of the rows to the table, also those of headrace.
_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
#: The tasks that read the state of a table in each batch, and the most tasks that list its folders in a VACUUM, unless the session has
#: other numbers. Delta starts 50 and 10,000 of them also for a small table: they take longer than their work.
_TASKS = {
    "spark.databricks.delta.snapshotPartitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "200",
}
#: The table property with which Delta forgets the versions of batches, and the operation that takes a table back to an older version.
_TRANSACTION_EXPIRY, _RESTORE = "delta.setTransactionRetentionDuration", "RESTORE"


@dataclass(frozen=True)
class DeltaCommit:
    """Commit of a batch: its version, and the metrics that Delta reports."""

    version: str
    metrics: Mapping[str, str]

    def count(self, *names: str) -> int | None:
        """Return the sum of metrics; None when Delta reports none of them."""
        found = [int(self.metrics[name]) for name in names if name in self.metrics]
        return sum(found) if found else None


class DeltaHandle:
    """Existing table: its session, its folder, and Delta's snapshot (``java``) as it was loaded."""

    def __init__(self, spark: SparkSession, path: str, java: Any) -> None:
        self.spark, self.path, self.java = spark, path, java

    @classmethod
    def load(cls, spark: SparkSession, path: str) -> DeltaHandle | None:
        """Load the newest version of the table; None when the folder has none."""
        java = _load_snapshot(spark, path)
        return None if java.version() < 0 else cls(spark, path, java)

    @property
    def jvm(self) -> Any:
        """The session's view of the JVM."""
        return self.spark._jvm  # noqa: SLF001

    @property
    def version(self) -> int:
        """Version of the table that was loaded."""
        return int(self.java.version())

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """Delta's action ``metaData``: the schema, the partition columns and the table properties."""
        return dict(json.loads(self.java.metadata().json())["metaData"])

    @cached_property
    def schema(self) -> StructType:
        """Columns of the table."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.metadata["schemaString"]))

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties."""
        return dict(self.metadata.get("configuration") or {})

    @property
    def partition_columns(self) -> list[str]:
        """Partition columns of the table."""
        return list(self.metadata.get("partitionColumns") or [])

    @property
    def is_own(self) -> bool:
        """Whether headrace created the table, so that all files in its folder belong to it."""
        return any(field.name == POSITION and CREATED in field.metadata for field in self.schema)

    @property
    def sql_name(self) -> str:
        """Name of the table in SQL."""
        path = self.path.replace("`", "``")
        return f"delta.`{path}`"

    @property
    def table(self) -> Any:
        """Delta's ``DeltaTable`` of the newest version."""
        return self.jvm.io.delta.tables.DeltaTable.forPath(self.spark._jsparkSession, self.path)  # noqa: SLF001

    def refresh(self) -> DeltaHandle:
        """Load the newest version of the table."""
        return DeltaHandle(self.spark, self.path, _load_snapshot(self.spark, self.path))

    def read(self) -> DataFrame:
        """Read the rows of the newest version."""
        return self.spark.read.format("delta").load(self.path)

    def to_frame(self, java: Any) -> DataFrame:
        """Return a DataFrame of the JVM as one of Python."""
        from pyspark.sql import DataFrame

        return DataFrame(java, self.spark)

    def find_batch_version(self, batch: Batch) -> BatchVersion | None:
        """Find the newest stored version of a batch's pipeline; None when the table has no batch of it."""
        found = self.java.transactions().get(find_app_id(batch))
        return BatchVersion.parse(int(found.get())) if found.isDefined() else None

    def is_applied(self, batch: Batch, last: BatchVersion | None) -> bool | None:
        """Return whether the table has a batch; None if unknown (``Batch.is_applied``). ``last``: of ``find_batch_version``."""
        if last is None:
            # Such a table may have had a version of the pipeline.
            return None if _TRANSACTION_EXPIRY in self.properties else False
        is_applied = last.is_applied(batch)
        return None if is_applied and self._is_restored(batch) else is_applied

    def find_commit(self, batch: Batch, before: int) -> DeltaCommit | None:
        """Find the commit of a batch that was just written after a version; None when it committed nothing.

        Other writers may have committed since.
        """
        for version, info in self._walk_commits(before):
            if info.get("userMetadata") == batch.mark:
                return DeltaCommit(str(version), info.get("operationMetrics") or {})
        return None

    def _is_restored(self, batch: Batch) -> bool:
        """Return whether an older version was restored after the commit of a batch. RESTORE keeps the stored versions of batches."""
        for _, info in self._walk_commits():
            if info.get("userMetadata") == batch.mark:
                return False
            if info.get("operation") == _RESTORE:
                return True
        return False

    def _walk_commits(self, before: int = -1) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Iterate over the commits after a version and their descriptions, the newest first; ``MARK_SEARCH_DEPTH`` of them at most."""
        log = Folder(self.spark, f"{self.path}/{LOG}")
        for version in range(self.version, max(before, self.version - MARK_SEARCH_DEPTH), -1):
            yield version, _read_commit_info(log, version)

    def count_deletion_vectors(self) -> int:
        """Count the files with rows that are marked as deleted."""
        found = self.java.numDeletionVectorsOpt()
        return int(found.get()) if found.isDefined() else 0

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set table properties. A property's name and value have no quotes."""
        # ALTER TABLE finds a folder only in Delta's catalog, which another table format may have replaced in this session.
        java: Any = self.spark._jsparkSession.cloneSession()  # noqa: SLF001
        java.conf().set("spark.sql.catalog.spark_catalog", _CATALOG)
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        java.sql(f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ({pairs})")


def find_prefix_length(properties: Mapping[str, str]) -> int:
    """Return the length of the random names of folders, which a table with mapped columns has instead of those of partitions; or 0."""
    is_random = properties.get(_RANDOM) == "true" or properties.get(MAPPING, "none") != "none"
    return int(properties.get(_RANDOM_LENGTH, "2")) if is_random else 0


def _load_snapshot(spark: SparkSession, path: str) -> Any:
    """Load Delta's newest snapshot; its version is -1 without a table. The session is headrace's own clone."""
    jvm: Any = spark._jvm  # noqa: SLF001
    for setting in (_CATALOG_CHECK, _AUTO_MERGE):
        spark.conf.set(setting, "false")
    for setting, tasks in _TASKS.items():
        if spark.conf.get(setting, None) is None:
            spark.conf.set(setting, tasks)
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, path)._2()  # noqa: SLF001


def _read_commit_info(log: Folder, version: int) -> Mapping[str, Any]:
    """Read the description of a commit; empty when the commit has none, or was removed."""
    for line in (log.read(f"{version:020d}.json") or "").splitlines():
        action = json.loads(line)
        if "commitInfo" in action:
            return dict(action["commitInfo"])
    return {}
