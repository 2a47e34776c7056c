"""Delta table in a folder, with its version, schema and marks of batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch
from headrace.sdk.storage import Folder
from headrace_sinks.delta.batch_versions import BatchVersion, find_app_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Folder of the commits of a table.
LOG = "_delta_log"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
#: Delta's check that the session's catalog is Delta's. Tables in folders need no catalog.
_CATALOG_CHECK = "spark.databricks.delta.requiredSparkConfsCheck.enabled"


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

    def find_commit(self, batch: Batch, before: int) -> DeltaCommit | None:
        """Find the commit of a batch that was just written after a version; None when it committed nothing.

        Other writers may have committed since.
        """
        log = Folder(self.spark, f"{self.path}/{LOG}")
        for version in range(self.version, max(before, self.version - MARK_SEARCH_DEPTH), -1):
            info = _read_commit_info(log, version)
            if info.get("userMetadata") == batch.mark:
                return DeltaCommit(str(version), info.get("operationMetrics") or {})
        return None

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


def _load_snapshot(spark: SparkSession, path: str) -> Any:
    """Load Delta's newest snapshot; its version is -1 without a table. The session is headrace's own clone."""
    jvm: Any = spark._jvm  # noqa: SLF001
    spark.conf.set(_CATALOG_CHECK, "false")
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, path)._2()  # noqa: SLF001


def _read_commit_info(log: Folder, version: int) -> Mapping[str, Any]:
    """Read the description of a commit; empty when the commit has none, or was removed."""
    for line in (log.read(f"{version:020d}.json") or "").splitlines():
        action = json.loads(line)
        if "commitInfo" in action:
            return dict(action["commitInfo"])
    return {}
