"""Sink for Iceberg tables: upserts ordered by position. Each batch is one commit, with the batch's mark in the snapshot."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    Dataset,
    HeadraceError,
    MaintenancePolicy,
    MaintenanceStep,
    NoSuchTableError,
    Plugin,
    Sink,
    Table,
    TableMode,
    TableSize,
    WriteResult,
)
from headrace.sdk.changes import DELETED
from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import first_line
from headrace.sdk.sessions import materialize
from headrace.sdk.storage import Folder, qualify_path
from headrace_sinks.active_session import active
from headrace_sinks.appended_rows import drop_stored
from headrace_sinks.as_of import to_millis, to_utc_text
from headrace_sinks.continued_rows import check_continued_rows
from headrace_sinks.deferred_creation import check_partition_columns, defer_creation
from headrace_sinks.iceberg.aws_bundle import AwsBundle, needs_aws
from headrace_sinks.iceberg.iceberg_catalog import (
    CATALOG,
    SESSION_CATALOG,
    check_folder,
    configure_folder_catalog,
    evict_table,
    list_namespaces,
    locate_table,
    with_new_login,
)
from headrace_sinks.iceberg.iceberg_config import IcebergConfig
from headrace_sinks.iceberg.iceberg_errors import explain, explain_version
from headrace_sinks.iceberg.iceberg_jars import ICEBERG_CAUTIONS, ICEBERG_JARS
from headrace_sinks.iceberg.iceberg_maintenance import METADATA_PROPERTIES, measure_table, plan_maintenance
from headrace_sinks.iceberg.iceberg_schema import check_paths, explain_null, guard_required
from headrace_sinks.iceberg.iceberg_table_options import IcebergTableOptions
from headrace_sinks.iceberg.marked_commit import commit_with_mark
from headrace_sinks.iceberg.merge import merge
from headrace_sinks.iceberg.orphans import ORPHANS_PROPERTY
from headrace_sinks.iceberg.partition_fields import PartitionField, find_long_values, find_partition_fields
from headrace_sinks.iceberg.row_delta import supports_row_delta, upsert
from headrace_sinks.iceberg.snapshot_marks import NO_MARKS, SnapshotMarks
from headrace_sinks.iceberg.table_handle import TableHandle
from headrace_sinks.reader_support import check_reader_names, list_names
from headrace_sinks.stored_files import explain_missing_file
from headrace_sinks.stored_types import check_stored_key, describe_changes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.sink import TableVersion

#: Shuffled bytes per writing task. With Iceberg's default, one task per file of 512 MB, the other cores would be idle.
_TASK_BYTES = 16 * 1024 * 1024


class IcebergSink(Sink):
    """``iceberg: {warehouse: lake/, mode: upsert}``."""

    name = "iceberg"
    api_version = 1
    Config = IcebergConfig
    config: IcebergConfig
    capabilities = Capabilities(
        upsert=True,
        delete=True,
        schema_evolution=True,
        exactly_once=True,
        time_travel=True,
        single_pass=True,
        concurrent_writers=True,
    )
    jars, cautions = ICEBERG_JARS, ICEBERG_CAUTIONS
    jvm_class = CATALOG
    #: The metadata columns that Iceberg adds to every table.
    reserved_columns = (
        "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
    )  # fmt: skip

    def parts(self) -> Sequence[Plugin]:
        return [AwsBundle()] if needs_aws(self.config.catalog_properties) else []

    def session_conf(self) -> dict[str, str]:
        if self.config.catalog is None:
            return {}
        prefix = f"spark.sql.catalog.{self.config.catalog}"
        return {
            prefix: self._catalog_class,
            **{f"{prefix}.{k}": value for k, value in self.config.catalog_properties.items()},
        }

    @property
    def reads_equality_deletes(self) -> bool:
        """Whether all ``readers`` are known to read equality deletes. False without ``readers``."""
        return self._table_options.reads_equality_deletes

    def warnings(self) -> Iterable[str]:
        return self._table_options.warnings(is_folder=self.config.warehouse is not None)

    def notes(self) -> Iterable[str]:
        if self.config.mode in (None, "upsert"):
            yield (
                "an incremental read (`start-snapshot-id`) of a table with a key returns no rows, because its commits replace rows; "
                'to read changes, see "Read the changes of an Iceberg table" in docs/tables.md'
            )

    def check(self, spark: SparkSession | None = None) -> None:
        self._table_options.properties()
        if spark is None or self.config.catalog is None:
            return
        try:
            list_namespaces(spark, self.config.catalog)
        except Exception as error:
            if (known := self.explain(error)) is not None:
                raise known from error
            prefix = f"spark.sql.catalog.{self.config.catalog}"
            raise ConfigError(
                f"cannot use the session's catalog {self.config.catalog!r}: {first_line(error)}",
                where="sink iceberg",
                fix="configure it under `catalog.properties`, or where the session is built, for example:"
                f'\n      .config("{prefix}", "{self._catalog_class}")'
                f'\n      .config("{prefix}.type", "hadoop")'
                f'\n      .config("{prefix}.warehouse", "s3a://lake/warehouse")',
            ) from error

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.catalog is not None:
            namespaces = list_namespaces(spark, self.config.catalog)
            yield "sink iceberg", f"catalog {self.config.catalog}: reachable, {len(namespaces)} namespaces"
        else:
            yield "sink iceberg", Folder(spark, self.config.warehouse or "").probe()

    def place(self) -> str | None:
        return self.config.warehouse or f"catalog {self.config.catalog}"

    def locate(self, table: Table) -> Dataset | None:
        config = self.config
        return locate_table(config.warehouse, config.catalog or "", config.catalog_properties, table)

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        check_reader_names(self.config.readers, columns, table.name)

    def check_new(self, table: Table, columns: Collection[str]) -> None:
        fields = find_partition_fields(table.name, self.config.partition_rules)
        check_partition_columns(table, columns, [field.column for field in fields], "sink iceberg, partition.by")

    def check_stored(self, spark: SparkSession, table: Table) -> str | None:
        with active(spark):
            handle = self.load_handle(spark, table)
            if handle is None:
                return None
            if self.config.readers:
                self._table_options.check_stored(handle, table.name)
            if self.config.mode in ("append", "changelog", "history"):
                return None
            return check_continued_rows(handle.schema, handle.read, table, self.name)

    def find_unsupported(self, spark: SparkSession, table: Table, mode: TableMode, row: StructType) -> Column | None:
        from pyspark.sql import functions as F

        fields = find_partition_fields(table.name, self.config.partition_rules)
        # An object store limits only the whole name of an object. The folder of a catalog's tables is unknown.
        if not fields or self.config.warehouse is None or Folder(spark, self.config.warehouse).is_in_store:
            return None
        with active(spark):
            handle = self.load_handle(spark, table)
        new = [field.column for field in fields if field.transform == "identity"]
        is_long = find_long_values(new if handle is None else handle.identity_columns, row)
        return None if is_long is None else ~F.col(DELETED) & is_long

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if self.config.readers:
            check_reader_names(self.config.readers, list_names(rows.schema), table.name)
        spark, name = rows.sparkSession, self._name(rows.sparkSession, table)
        with active(spark):
            try:
                # A repeated write finds the mark of the batch.
                return with_new_login(spark, self.session_conf(), lambda: self._write_batch(table, name, rows, batch))
            finally:
                # The metadata of one table can take megabytes of memory, and there are many tables. A catalog that rejects
                # the login has no cache.
                with suppress(Exception):
                    evict_table(spark, name)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        if as_of is None:
            return self.read_with(spark, table, {})
        if as_of.isdigit() and len(as_of) > 8:
            return self.read_with(spark, table, {"versionAsOf": as_of})
        return self.read_with(spark, table, {"timestampAsOf": to_utc_text(to_millis(spark, as_of))})

    def read_with(self, spark: SparkSession, table: Table, options: Mapping[str, str]) -> DataFrame:
        """Read a table with options of Iceberg's reader."""
        reader = spark.read.format("iceberg").options(**options)
        with active(spark):
            address, exists = self._locate(spark, table)
            where, fix = f"sink iceberg, {self.place()}", "run the pipeline, or correct the name"
            missing = NoSuchTableError(f"there is no table {table.name!r}", where=where, fix=fix)
            if not exists:
                raise missing
            try:
                return reader.load(address)
            except Exception as error:
                if "TABLE_OR_VIEW_NOT_FOUND" in str(error):  # the first commit is in progress, or failed
                    raise missing from error
                raise explain_version(error) or self.explain(error) or error from error

    def find_version(self, spark: SparkSession, table: Table) -> str | None:
        with active(spark):
            return handle.version if (handle := self.load_handle(spark, table)) else None

    def list_versions(self, spark: SparkSession, table: Table) -> Sequence[TableVersion]:
        with active(spark):
            return handle.list_versions() if (handle := self.load_handle(spark, table)) else ()

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        return plan_maintenance(spark, partial(self.load_handle, spark, table), policy)

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        return measure_table(spark, partial(self.load_handle, spark, table))

    def explain(self, error: BaseException) -> HeadraceError | None:
        known = explain_null(error) or explain(error, self.config.catalog_properties)
        return known or (explain_missing_file(error, self.config.warehouse) if self.config.warehouse else None)

    @property
    def _table_options(self) -> IcebergTableOptions:
        table_type = self.config.table_type if "table_type" in self.config.model_fields_set else None
        return IcebergTableOptions(self.config.readers, table_type, self.config.options())

    @property
    def _catalog_class(self) -> str:
        return SESSION_CATALOG if self.config.catalog == "spark_catalog" else CATALOG

    def _write_batch(self, table: Table, name: str, rows: DataFrame, batch: Batch) -> WriteResult:
        handle = TableHandle.load(rows.sparkSession, name)
        if handle is None:
            return self._write_first_batch(table, name, rows, batch)
        return self._write(handle, table, rows, batch)

    def _write(self, handle: TableHandle, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        marks = SnapshotMarks.read(handle, batch)
        if marks.is_applied(batch):
            return WriteResult(version=handle.version, skipped=True)
        if batch.mode == "upsert":
            self._table_options.check_mode(handle, table.name)
            check_stored_key(handle.schema, table.key, table.name, self.name)
            check_continued_rows(handle.schema, handle.read, table, self.name)
        before = handle.version
        stored, has_deletes = handle.schema, batch.mode == "upsert"
        rows = guard_required(handle.evolve(rows, stored, has_deletes=has_deletes), stored, has_deletes=has_deletes)
        changes = describe_changes(stored, rows.drop(DELETED).schema)
        merges_on_read = handle.properties.get("write.merge.mode") == "merge-on-read"
        if batch.mode == "append":
            with drop_stored(rows, handle.read, is_known=marks.is_applied(batch) is not None) as new:
                append = new.writeTo(handle.name).append
                commit_with_mark(handle.spark, batch, append, marks.carry(batch))
        elif merges_on_read and supports_row_delta(handle):
            upsert(handle, table, rows, batch, by_key=self.reads_equality_deletes)
        elif merges_on_read:
            commit_with_mark(handle.spark, batch, lambda: merge(handle, table, rows))
        else:
            # Copy-on-write reads the rows twice: the first time to find the files to rewrite.
            with materialize(rows) as stable:
                commit_with_mark(handle.spark, batch, lambda: merge(handle, table, stable))
        handle.refresh_if_unchanged(before)
        result = _to_result(handle, batch, counts_rows=merges_on_read or batch.mode == "append")
        return replace(result, schema_changes=changes)

    def _write_first_batch(self, table: Table, name: str, rows: DataFrame, batch: Batch) -> WriteResult:
        """Create the table with the rows of its first batch."""
        check_paths(rows.schema)
        spark = rows.sparkSession
        fields = find_partition_fields(table.name, self.config.partition_rules)
        columns = [field.column for field in fields]
        if deferred := defer_creation(table, rows, batch, columns, "sink iceberg, partition.by"):
            return deferred
        check_folder(spark, name, table)
        namespace, _, _ = name.rpartition(".")
        if "." in namespace:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        commit_with_mark(spark, batch, lambda: self._create(name, fields, rows, batch), NO_MARKS.carry(batch))
        handle = TableHandle.load(spark, name)
        assert handle is not None, "the commit created the table"
        return _to_result(handle, batch, counts_rows=True)

    def _create(self, name: str, fields: Sequence[PartitionField], rows: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as F

        if batch.mode == "upsert":
            rows = rows.where(~F.col(DELETED))
        writer = rows.drop(DELETED).writeTo(name).using("iceberg")
        if fields:
            writer = writer.partitionedBy(*[field.to_column() for field in fields])
        properties = {
            **self._table_options.properties(),
            "write.spark.advisory-partition-size-bytes": str(_TASK_BYTES),
            **METADATA_PROPERTIES,
            ORPHANS_PROPERTY: str(round(time.time() * 1000)),
            **self.config.options(),
        }
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        writer.create()

    def _name(self, spark: SparkSession, table: Table) -> str:
        """Return the name of a table in the Spark session."""
        return ".".join(map(quote_name, [self.name_catalog(spark), *table.parts]))

    def name_catalog(self, spark: SparkSession) -> str:
        """Return the name of the catalog in the Spark session."""
        warehouse = self.config.warehouse
        return self.config.catalog or configure_folder_catalog(spark, qualify_path(spark, str(warehouse)))

    def load_handle(self, spark: SparkSession, table: Table) -> TableHandle | None:
        """Load a table, with the current secrets if the catalog rejects the login; None when it does not exist."""
        return TableHandle.load(spark, self._name(spark, table), self.session_conf())

    def _locate(self, spark: SparkSession, table: Table) -> tuple[str, bool]:
        """Return the name or path by which a reader loads a table, and whether the table exists."""
        if self.config.warehouse is None:
            name = self._name(spark, table)
            return name, self.load_handle(spark, table) is not None
        # A path works in any session, without a catalog in its settings.
        path = "/".join([qualify_path(spark, self.config.warehouse), *table.parts])
        return path, Folder(spark, f"{path}/metadata").exists()


def _to_result(handle: TableHandle, batch: Batch, *, counts_rows: bool) -> WriteResult:
    """Build the result from the batch's snapshot. ``counts_rows``: the snapshot's added records are the batch's upserts.

    A copy-on-write commit also adds the unchanged rows of the files that it rewrites.
    """
    snapshot = handle.find_snapshot(batch)
    if snapshot is None:
        return WriteResult(upserted=0, version=handle.version)
    summary = snapshot.summary()
    return WriteResult(
        upserted=int(summary.get("added-records") or 0) if counts_rows else None,
        bytes=int(summary.get("added-files-size") or 0),
        version=str(snapshot.snapshotId()),
    )
