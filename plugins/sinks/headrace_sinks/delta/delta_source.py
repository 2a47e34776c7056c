"""Source for Delta tables. Two versions of a table are compared, so the table needs no change data feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk import Table
from headrace.sdk.sink import TableVersion
from headrace_sinks.active_session import active
from headrace_sinks.delta.delta_handle import LOG, DeltaHandle
from headrace_sinks.delta.delta_log import list_versions
from headrace_sinks.delta.delta_sink import DeltaSink
from headrace_sinks.lake_source.folder_tables import FolderSourceConfig, FolderTables
from headrace_sinks.lake_source.lake_source import LakeSource
from headrace_sinks.lake_source.lake_tables import LakeTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaSource(LakeSource):
    """``delta: {path: lake/, tables: [silver.orders]}``."""

    name = "delta"
    api_version = 1
    Config = FolderSourceConfig
    config: FolderSourceConfig
    jars, jvm_class, sql_conf = DeltaSink.jars, DeltaSink.jvm_class, DeltaSink.sql_conf

    def open_tables(self) -> LakeTables:
        return DeltaTables(DeltaSink(path=self.config.path))


class DeltaTables(FolderTables):
    """Delta tables below a folder. A version is a number and the id of the table: a new table in the folder has the same numbers."""

    log = LOG

    def has_table(self, spark: SparkSession, table: Table) -> bool:
        return self._load(spark, table) is not None

    def find_newest(self, spark: SparkSession, table: Table) -> TableVersion | None:
        return next(iter(self.list_versions(spark, table)[-1:]), None)

    def read(self, spark: SparkSession, table: Table, version: str | None = None) -> DataFrame:
        return _plan_scan(super().read(spark, table, version and version.partition(" ")[0]))

    def _load(self, spark: SparkSession, table: Table) -> DeltaHandle | None:
        with active(spark):
            return DeltaHandle.load(spark, self.locate_folder(spark, table))

    def list_versions(self, spark: SparkSession, table: Table) -> Sequence[TableVersion]:
        if (handle := self._load(spark, table)) is None:
            return []
        with active(spark):
            name = str(handle.java.metadata().id())
            return [replace(found, version=f"{found.version} of {name}") for found in list_versions(handle)]


def _plan_scan(frame: DataFrame) -> DataFrame:
    """Return the rows of a frame whose scan is planned now.

    Delta does not prepare a scan in the plan of a write by a format of Spark's version 2 API, such as Iceberg, and then refuses to read
    deletion vectors.
    """
    from pyspark.sql import DataFrame

    spark, java = frame.sparkSession, frame._jdf  # noqa: SLF001
    rows = java.queryExecution().toRdd()
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rows, java.schema(), False), spark)  # noqa: SLF001
