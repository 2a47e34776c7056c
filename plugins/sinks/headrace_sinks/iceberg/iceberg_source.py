"""Source for Iceberg tables. Snapshots that only add rows are read by an incremental scan; other snapshots are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from headrace.sdk import Table
from headrace.sdk.sink import TableVersion
from headrace_sinks.active_session import active
from headrace_sinks.iceberg.catalog_properties import CatalogProperties
from headrace_sinks.iceberg.iceberg_catalog import CATALOG, list_names
from headrace_sinks.iceberg.iceberg_jars import ICEBERG_CAUTIONS, ICEBERG_JARS
from headrace_sinks.iceberg.iceberg_sink import IcebergSink
from headrace_sinks.iceberg.table_handle import TableHandle
from headrace_sinks.lake_source.lake_config import LakeSourceConfig
from headrace_sinks.lake_source.lake_source import LakeSource
from headrace_sinks.lake_source.lake_tables import LakeTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Operations of snapshots that only add rows, and of snapshots with the rows of their parents.
_APPEND, _REWRITE = "append", "replace"


class IcebergSourceConfig(LakeSourceConfig):
    """Options of the source ``iceberg``. The place of the tables has the options of the sink ``iceberg``."""

    warehouse: str | None = None
    """Folder of the tables, without a catalog service (Iceberg's ``hadoop`` catalog)."""

    catalog: str | None = None
    """Name of a catalog of the Spark session, instead of ``warehouse``."""

    catalog_properties: CatalogProperties = Field(default_factory=dict, alias="catalog.properties")
    """Properties of that catalog (``type``, ``uri``, ``warehouse``, …), set when headrace builds the session."""

    @model_validator(mode="after")
    def _check_location(self) -> IcebergSourceConfig:
        if bool(self.warehouse) == bool(self.catalog):
            raise ValueError("set either `warehouse:` (a folder) or `catalog:` (a catalog of the session)")
        return self


class IcebergSource(LakeSource):
    """``iceberg: {warehouse: lake/, tables: [silver.orders]}``."""

    name = "iceberg"
    api_version = 1
    Config = IcebergSourceConfig
    config: IcebergSourceConfig
    jars, cautions = ICEBERG_JARS, ICEBERG_CAUTIONS
    jvm_class = CATALOG

    def open_tables(self) -> LakeTables:
        place: dict[str, Any] = {"warehouse": self.config.warehouse, "catalog": self.config.catalog}
        properties = {"catalog.properties": self.config.catalog_properties}
        return IcebergTables(IcebergSink({**place, **properties}))


class IcebergTables(LakeTables):
    """Tables of an Iceberg catalog."""

    sink: IcebergSink

    def list_namespaces(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        return list_names(spark, self.sink.name_catalog(spark), parents, of_tables=False)

    def list_tables(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        return list_names(spark, self.sink.name_catalog(spark), parents, of_tables=True)

    def has_table(self, spark: SparkSession, table: Table) -> bool:
        with active(spark):
            return self.sink.load_handle(spark, table) is not None

    def find_newest(self, spark: SparkSession, table: Table) -> TableVersion | None:
        with active(spark):
            handle = self.sink.load_handle(spark, table)
            if handle is None or (version := handle.version) is None:
                return None
            # A table that was taken back to an older snapshot has a later time than the snapshot.
            return TableVersion(version, int(handle.java.operations().current().lastUpdatedMillis()))

    def list_later(self, spark: SparkSession, table: Table, version: str) -> list[TableVersion]:
        with active(spark):
            found = list[TableVersion]()
            for snapshot in _walk(self.sink.load_handle(spark, table)):
                if str(snapshot.snapshotId()) == version:
                    return found[::-1]
                found.append(TableVersion(str(snapshot.snapshotId()), int(snapshot.timestampMillis())))
        return []

    def find_equal(self, spark: SparkSession, table: Table, version: str) -> str | None:
        with active(spark):
            handle = self.sink.load_handle(spark, table)
            if handle is None:
                return None
            if handle.java.snapshot(int(version)) is not None:
                return version
            # A rewrite has the rows of its parent, which may have expired.
            for snapshot in _walk(handle):
                if str(snapshot.parentId()) == version and snapshot.operation() == _REWRITE:
                    return str(snapshot.snapshotId())
        return None

    def find_key(self, spark: SparkSession, table: Table) -> Sequence[str]:
        with active(spark):
            handle = self.sink.load_handle(spark, table)
            return () if handle is None else sorted(map(str, handle.java.schema().identifierFieldNames()))

    def has_only_appends(self, spark: SparkSession, table: Table, after: str, upto: str) -> bool:
        with active(spark):
            handle = self.sink.load_handle(spark, table)
            return handle is not None and _only_adds(handle, after, upto)

    def read_appended(self, spark: SparkSession, table: Table, after: str, upto: str) -> DataFrame:
        ends = {"start-snapshot-id": after, "end-snapshot-id": upto}
        return self.hide_own_columns(self.sink.read_with(spark, table, ends))


def _walk(handle: TableHandle | None, upto: str | None = None) -> Iterator[Any]:
    """Iterate over a snapshot, by default the current one, and its ancestors, the newest first."""
    if handle is None:
        return
    snapshot = handle.snapshot if upto is None else handle.java.snapshot(int(upto))
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else handle.java.snapshot(parent)


def _only_adds(handle: TableHandle, after: str, upto: str) -> bool:
    """Return whether all snapshots after ``after``, which must be an ancestor, add rows or rewrite files, with its columns.

    A renamed column, or a new one with a default, changes the rows that the table had; and the scan has the columns of now.
    """
    columns = handle.java.schema().schemaId()
    for snapshot in _walk(handle, upto):
        if snapshot.schemaId() != columns:
            return False
        if str(snapshot.snapshotId()) == after:
            return True
        if snapshot.operation() not in (_APPEND, _REWRITE):
            return False
    return False
