"""Tables that are folders below a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.sdk import Table
from headrace.sdk.storage import Folder, qualify_path
from headrace_sinks.lake_source.lake_config import LakeSourceConfig
from headrace_sinks.lake_source.lake_tables import LakeTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FolderSourceConfig(LakeSourceConfig):
    """Options of a source whose tables are folders."""

    path: str
    """Folder with a subfolder for each table."""


class FolderTables(LakeTables):
    """Tables below the option ``path`` of a sink."""

    #: Name of the folder with the versions of a table.
    log: ClassVar[str]

    def list_namespaces(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        return self._open(spark, parents).names()

    def list_tables(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        folder = self._open(spark, parents)
        return [name for name in folder.names() if self._has_log(spark, f"{folder.path}/{name}")]

    def locate_folder(self, spark: SparkSession, table: Table) -> str:
        """Return the folder of a table."""
        return "/".join([qualify_path(spark, str(self.sink.config.path)), *table.parts])

    def _open(self, spark: SparkSession, parents: Sequence[str]) -> Folder:
        return Folder(spark, "/".join([str(self.sink.config.path), *parents]))

    def _has_log(self, spark: SparkSession, path: str) -> bool:
        return Folder(spark, f"{path}/{self.log}").exists()
