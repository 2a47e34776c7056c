"""Sink for Delta tables: upserts ordered by position. Each batch is one commit, with the batch's mark as its transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from headrace.sdk import (
    Batch,
    Capabilities,
    HeadraceError,
    MaintenancePolicy,
    MaintenanceStep,
    NoSuchTableError,
    SinkConfig,
    Table,
    TableMode,
    TableSize,
    WriteResult,
)
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.storage import Folder, qualify_path
from headrace_sinks.active_session import active
from headrace_sinks.appended_rows import drop_stored
from headrace_sinks.as_of import expired_version, to_millis, to_utc_text
from headrace_sinks.continued_rows import check_continued_rows
from headrace_sinks.deferred_creation import check_partition_columns, defer_creation
from headrace_sinks.delta.batch_versions import BatchVersion, mark_commits
from headrace_sinks.delta.delta_errors import explain, explain_version, is_after_last_commit
from headrace_sinks.delta.delta_folders import check_other_files, make_table_folders
from headrace_sinks.delta.delta_handle import CREATED, DeltaHandle, find_prefix_length
from headrace_sinks.delta.delta_log import find_oldest_after, list_versions
from headrace_sinks.delta.delta_maintenance import measure_table, plan_maintenance
from headrace_sinks.delta.delta_merge import merge
from headrace_sinks.delta.delta_names import check_merged_names, check_names, needs_mapping
from headrace_sinks.delta.delta_partitions import check_partition_types, find_partition_columns, find_unsupported_values
from headrace_sinks.delta.delta_readers import load_readers
from headrace_sinks.delta.delta_schema import evolve
from headrace_sinks.delta.delta_table_options import DELETION_VECTORS, DeltaTableOptions
from headrace_sinks.folder_sink import FolderSink
from headrace_sinks.nested_tables import TableFolders
from headrace_sinks.other_formats import check_other_formats
from headrace_sinks.reader_support import check_reader_names, check_readers, list_names
from headrace_sinks.stored_types import check_stored_key, describe_changes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.sink import TableVersion

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
#: Delta's metrics of a commit that count inserted and updated rows, and written bytes: of a write, and of MERGE.
_ROWS = ("numOutputRows",), ("numTargetRowsInserted", "numTargetRowsUpdated")
_BYTES = ("numOutputBytes",), ("numTargetBytesAdded",)


def _list_jars(line: str) -> tuple[str, ...]:
    """Return Delta's own jars for a line of Spark 4. Spark ships its other dependencies, in newer versions."""
    modules = f"delta-spark_{line}_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults"
    return tuple(f"io.delta:{module}:4.3.0:jar" for module in modules)


class DeltaConfig(SinkConfig):
    """Options of the sink ``delta``. Table properties (``delta.…``) pass through and are set when a table is created."""

    passthrough: ClassVar[tuple[str, ...]] = ("delta.*",)

    path: str
    """Folder with a subfolder for each table."""

    readers: tuple[str, ...] = ()
    """Query engines that read the tables (``[spark, athena]``). New tables use only features that all of them support."""

    partition_by: dict[str, tuple[str, ...]] | tuple[str, ...] = Field(default_factory=dict, alias="partition.by")
    """Partition columns of new tables. Table name or glob → columns. The first rule that matches applies. A list of columns applies to all
    tables.
    """

    @field_validator("readers")
    @classmethod
    def _check_readers(cls, readers: tuple[str, ...]) -> tuple[str, ...]:
        check_readers(readers, load_readers(), "Delta", DELETION_VECTORS)
        return readers

    @property
    def partition_rules(self) -> dict[str, tuple[str, ...]]:
        """Table name or glob → columns."""
        return self.partition_by if isinstance(self.partition_by, dict) else {"*": self.partition_by}


class DeltaSink(FolderSink):
    """``delta: {path: lake/, mode: upsert}``."""

    name = "delta"
    api_version = 1
    Config = DeltaConfig
    config: DeltaConfig
    capabilities = Capabilities(
        upsert=True,
        delete=True,
        schema_evolution=True,
        exactly_once=True,
        time_travel=True,
        single_pass=True,
        concurrent_writers=True,
    )
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("io.delta:delta-spark_2.12:3.3.3",),
        **{line: _list_jars(line) for line in ("4.0", "4.1")},
    }
    jvm_class = _EXTENSION
    #: Columns of the change data feed, and Spark's metadata column, by which Delta finds the rows of deletion vectors.
    reserved_columns = ("_change_type", "_commit_version", "_commit_timestamp", "_metadata")

    def session_conf(self) -> dict[str, str]:
        # Without the extension, a query shows the rows that deletion vectors delete. A catalog is not needed: tables are paths.
        return {"spark.sql.extensions": _EXTENSION}

    def warnings(self) -> Iterable[str]:
        return self._table_options.warnings()

    def check(self, spark: SparkSession | None = None) -> None:
        properties = self._table_options.properties()
        if spark is not None:
            self._check_properties(spark, properties)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "sink delta", Folder(spark, self.config.path).probe()

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        check_reader_names(self.config.readers, columns, table.name)
        if needs_mapping(columns):
            path = self._path(spark, table)
            if (properties := self._stored_properties.get(path)) is None:
                with active(spark):
                    handle = DeltaHandle.load(spark, path)
                properties = self._table_options.properties(columns) if handle is None else handle.properties
            check_names(columns, properties, self.config.readers)

    def check_new(self, table: Table, columns: Collection[str]) -> None:
        check_partition_columns(table, columns, self._partition_columns(table), "sink delta, partition.by")

    def check_stored(self, spark: SparkSession, table: Table) -> str | None:
        with active(spark):
            handle = DeltaHandle.load(spark, self._path(spark, table))
            if handle is None:
                return None
            if self.config.readers:
                self._table_options.check_stored(handle, table.name)
            if self.config.mode in ("append", "changelog", "history"):
                return None
            return check_continued_rows(handle.schema, handle.read, table, self.name)

    def find_unsupported(self, spark: SparkSession, table: Table, mode: TableMode, row: StructType) -> Column | None:
        path = self._path(spark, table)
        with active(spark):
            handle = DeltaHandle.load(spark, path)
        columns = self._partition_columns(table) if handle is None else handle.partition_columns
        if not columns:
            return None
        names = tuple(list_names(row))
        properties = self._table_options.properties(names) if handle is None else handle.properties
        unsupported = find_unsupported_values(
            columns, row, has_folders=not find_prefix_length(properties), has_limit=not Folder(spark, path).is_in_store
        )
        return None if unsupported is None else ~_is_deleted() & unsupported

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if self.config.readers:
            check_reader_names(self.config.readers, list_names(rows.schema), table.name)
        if batch.mode == "upsert":
            check_merged_names(rows.columns)
        spark, path = rows.sparkSession, self._path(rows.sparkSession, table)
        with active(spark):
            handle = DeltaHandle.load(spark, path)
            self._folders.check(spark, table.name, path, is_stored=handle is not None, is_exclusive=True)
            if handle is None:
                return self._write_first_batch(table, path, rows, batch)
            self._stored_properties[path] = handle.properties
            return self._write(handle, table, rows, batch)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        path = self._path(spark, table)
        with active(spark):
            handle = DeltaHandle.load(spark, path)
            if handle is None:
                raise NoSuchTableError(
                    f"there is no table {table.name!r}",
                    where=f"sink delta, path {self.config.path}",
                    fix="run the pipeline, or correct the name",
                )
            try:
                return spark.read.format("delta").options(**_find_version(handle, as_of, table)).load(path)
            except Exception as error:
                if as_of is not None and is_after_last_commit(error):
                    return spark.read.format("delta").load(path)
                raise explain_version(error) or self.explain(error) or error from error

    def find_version(self, spark: SparkSession, table: Table) -> str | None:
        with active(spark):
            handle = DeltaHandle.load(spark, self._path(spark, table))
        return None if handle is None else str(handle.version)

    def list_versions(self, spark: SparkSession, table: Table) -> Sequence[TableVersion]:
        with active(spark):
            handle = DeltaHandle.load(spark, self._path(spark, table))
            return () if handle is None else list_versions(handle)

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        return plan_maintenance(spark, self._path(spark, table), policy)

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        return measure_table(spark, self._path(spark, table))

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain(error, self.config.path)

    @property
    def _table_options(self) -> DeltaTableOptions:
        return DeltaTableOptions(self.config.readers, self.config.options())

    @cached_property
    def _stored_properties(self) -> dict[str, Mapping[str, str]]:
        """Table's folder → its properties, of tables that this run has written."""
        return {}

    @cached_property
    def _folders(self) -> TableFolders:
        return make_table_folders()

    def _check_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for a property that Delta rejects. The writer would report its name in lower case."""
        jvm: Any = spark._jvm  # noqa: SLF001
        try:
            jvm.org.apache.spark.sql.delta.DeltaConfigs.validateConfigurations(jvm.PythonUtils.toScalaMap(properties))
        except Exception as error:
            raise self.explain(error) or error from error

    def _path(self, spark: SparkSession, table: Table) -> str:
        return "/".join([qualify_path(spark, self.config.path), *table.parts])

    def _partition_columns(self, table: Table) -> Sequence[str]:
        return find_partition_columns(table.name, self.config.partition_rules)

    def _write(self, handle: DeltaHandle, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        last = handle.find_batch_version(batch)
        is_applied = handle.is_applied(batch, last)
        if is_applied:
            return WriteResult(version=str(handle.version), skipped=True)
        if batch.mode == "upsert":
            self._table_options.check_stored(handle, table.name)
            check_stored_key(handle.schema, table.key, table.name, self.name)
            check_continued_rows(handle.schema, handle.read, table, self.name)
        stored = handle.schema
        check_partition_types(handle.partition_columns, stored, f"table {table.name}, sink delta")
        rows = evolve(handle, rows, self.config.readers, has_deletes=batch.mode == "upsert")
        changes = describe_changes(stored, rows.drop(DELETED).schema)
        with mark_commits(handle.spark, batch, BatchVersion.after(last, batch)):
            if batch.mode == "upsert":
                merge(handle, table, rows)
            else:
                with drop_stored(rows, handle.read, is_known=is_applied is not None) as new:
                    new.write.format("delta").mode("append").save(handle.path)
        return replace(_to_result(handle.refresh(), batch, before=handle.version), schema_changes=changes)

    def _write_first_batch(self, table: Table, path: str, rows: DataFrame, batch: Batch) -> WriteResult:
        """Create the table with the rows of its first batch."""
        spark, columns = rows.sparkSession, tuple(self._partition_columns(table))
        if deferred := defer_creation(table, rows, batch, columns, "sink delta, partition.by"):
            return deferred
        check_partition_types(columns, rows.schema, f"table {table.name}, sink delta, partition.by")
        check_other_formats(spark, table.name, path, self.name)
        names = tuple(list_names(rows.schema))
        properties = self._table_options.properties(names)
        check_other_files(spark, table.name, path, columns, find_prefix_length(properties))
        check_names(names, properties, self.config.readers)
        if batch.mode == "upsert":
            rows = rows.where(~_is_deleted())
        rows = rows.withMetadata(POSITION, {CREATED: True})
        # An append would continue a table that another writer has created in the meantime, without a look at its columns.
        writer = rows.drop(DELETED).write.format("delta").mode("errorifexists").options(**properties)
        with mark_commits(spark, batch, BatchVersion.after(None, batch)):
            (writer.partitionBy(*columns) if columns else writer).save(path)
        handle = DeltaHandle.load(spark, path)
        assert handle is not None, "the commit created the table"
        return _to_result(handle, batch, before=-1)


def _is_deleted() -> Column:
    from pyspark.sql import functions as F

    return F.col(DELETED)


def _find_version(handle: DeltaHandle, as_of: str | None, table: Table) -> dict[str, str]:
    """Return the reader's options for a version: a number, or a timestamp in the session's time zone. ConfigError for an expired one."""
    if as_of is None:
        return {}
    millis = None if as_of.isdigit() else to_millis(handle.spark, as_of)
    if oldest := find_oldest_after(handle, as_of if millis is None else millis):
        raise expired_version(as_of, oldest, f"table {table.name}, sink delta")
    return {"versionAsOf": as_of} if millis is None else {"timestampAsOf": to_utc_text(millis)}


def _to_result(handle: DeltaHandle, batch: Batch, *, before: int) -> WriteResult:
    """Build the result from the batch's commit. ``before``: the version before the batch."""
    commit = handle.find_commit(batch, before)
    if commit is None:
        return WriteResult(upserted=0, version=str(handle.version))
    rows, written = (
        next((count for names in metrics if (count := commit.count(*names)) is not None), None)
        for metrics in (_ROWS, _BYTES)
    )
    return WriteResult(upserted=rows, bytes=written, version=commit.version)
