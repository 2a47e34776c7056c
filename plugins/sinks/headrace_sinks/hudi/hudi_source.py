"""Source for Hudi tables. Two instants of a table are compared: Hudi's incremental queries return no deletes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Table
from headrace.sdk.changes import PREFIX
from headrace_sinks.hudi import hudi_timeline
from headrace_sinks.hudi.hudi_sink import HudiSink
from headrace_sinks.hudi.record_keys import list_record_key
from headrace_sinks.lake_source.folder_tables import FolderSourceConfig, FolderTables
from headrace_sinks.lake_source.lake_source import LakeSource
from headrace_sinks.lake_source.lake_tables import LakeTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HudiSource(LakeSource):
    """``hudi: {path: lake/, tables: [silver.orders]}``."""

    name = "hudi"
    api_version = 1
    Config = FolderSourceConfig
    config: FolderSourceConfig
    jars, jvm_class, sql_conf = HudiSink.jars, HudiSink.jvm_class, HudiSink.sql_conf

    def open_tables(self) -> LakeTables:
        return HudiTables(HudiSink(path=self.config.path))


class HudiTables(FolderTables):
    """Hudi tables below a folder."""

    sink: HudiSink
    log = ".hoodie"

    def has_table(self, spark: SparkSession, table: Table) -> bool:
        return hudi_timeline.has_table(spark, self.locate_folder(spark, table))

    def find_key(self, spark: SparkSession, table: Table) -> Sequence[str]:
        config = hudi_timeline.read_config(spark, self.locate_folder(spark, table))
        # Without a global index, a record key is unique in its partition only.
        key = [] if config is None or config.isTablePartitioned() else list_record_key(config)
        # A record key that headrace or Hudi computes is not a column of the data.
        return () if any(name.startswith(("_hoodie_", PREFIX)) for name in key) else key
