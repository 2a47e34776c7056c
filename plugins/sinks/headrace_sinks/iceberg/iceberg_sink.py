"""Iceberg tables: MERGE by position, one commit per batch, the batch's mark in the snapshot."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    HeadraceError,
    MaintenancePolicy,
    MaintenanceStep,
    Plugin,
    Sink,
    SinkConfig,
    Table,
    TableSize,
    WriteResult,
)
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import first_line
from headrace.sdk.schemas import project
from headrace.sdk.sessions import materialize
from headrace.sdk.storage import Folder, qualify_path
from headrace_sinks.as_of import millis
from headrace_sinks.deferred_creation import defer_creation
from headrace_sinks.iceberg.aws_bundle import AwsBundle, needs_aws
from headrace_sinks.iceberg.iceberg_catalog import (
    CATALOG,
    SESSION_CATALOG,
    active,
    catalog_of_folder,
    forget_table,
    list_namespaces,
    load_table,
    schema_of,
    sql_of,
    version_of,
)
from headrace_sinks.iceberg.iceberg_errors import translate
from headrace_sinks.iceberg.iceberg_maintenance import METADATA_PROPERTIES, measure_table, plan_maintenance
from headrace_sinks.iceberg.iceberg_readers import READERS
from headrace_sinks.iceberg.iceberg_schema import alter_clauses, can_widen
from headrace_sinks.iceberg.iceberg_table_options import IcebergTableOptions, TableType
from headrace_sinks.iceberg.marked_commit import commit_with_mark, find_marked, is_applied
from headrace_sinks.iceberg.merge import merge
from headrace_sinks.iceberg.orphans import ORPHANS_PROPERTY
from headrace_sinks.iceberg.partition_fields import PartitionField, fields_of
from headrace_sinks.iceberg.row_delta import can_have_deltas, upsert
from headrace_sinks.reader_support import check_reader_names, check_readers, list_names
from headrace_sinks.stored_files import explain_missing_file
from headrace_sinks.stored_types import spell_as_stored, union_by_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Shuffled bytes of one task that writes. Iceberg's own way, a task for each file of 512 MB, leaves the other cores idle.
_TASK_BYTES = 16 * 1024 * 1024


class IcebergConfig(SinkConfig):
    """Iceberg tables; table properties pass through under their own names and are set when a table is created."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "write.*", "commit.*", "history.*", "read.*", "format-version", "gc.*", "compatibility.*", "snapshot-property.*", "schema.*", "encryption.*",
    )  # fmt: skip

    #: The folder of a catalog that is nothing but this folder (Iceberg's ``hadoop`` catalog).
    warehouse: str | None = None
    #: A catalog of the Spark session instead, by its name.
    catalog: str | None = None
    #: Properties of that catalog (``type``, ``uri``, ``warehouse``, …), set when headrace builds the session.
    catalog_properties: dict[str, str] = Field(default_factory=dict, alias="catalog.properties")
    #: How rows are replaced: merge-on-read writes less, copy-on-write reads faster. With ``readers`` the default is what all of
    #: them read.
    table_type: TableType = Field("merge-on-read", alias="table.type")
    #: The engines that read the tables (``[spark, athena, pyiceberg]``): new tables are such that all of them read them right.
    readers: tuple[str, ...] = ()
    #: How new tables are partitioned. Table, or a glob → fields: a column, ``years``, ``months``, ``days`` or ``hours`` of
    #: one, or ``bucket(16, column)``. The first rule that matches counts.
    partition_by: dict[str, tuple[str, ...]] = Field(default_factory=dict, alias="partition.by")

    @field_validator("partition_by")
    @classmethod
    def _fields(cls, rules: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for fields in rules.values():
            for field in fields:
                PartitionField.parse(field)
        return rules

    @field_validator("readers")
    @classmethod
    def _check_readers(cls, readers: tuple[str, ...]) -> tuple[str, ...]:
        check_readers(readers, READERS, "Iceberg")
        return readers

    @model_validator(mode="after")
    def _warehouse_or_catalog(self) -> IcebergConfig:
        if bool(self.warehouse) == bool(self.catalog):
            raise ValueError("name either a `warehouse:` folder or a `catalog:` of the session")
        return self


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
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",),
        "4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
    }
    jvm_class = CATALOG
    #: The columns that Iceberg adds to every table that is read.
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
        """Whether all ``readers`` are known to read equality deletes; without ``readers`` nobody knows."""
        return self._choice.reads_equality_deletes

    def warnings(self) -> Iterable[str]:
        return self._choice.warnings(is_folder=self.config.warehouse is not None)

    def check(self, spark: SparkSession | None = None) -> None:
        self._choice.properties()
        if spark is None or self.config.catalog is None:
            return
        try:
            list_namespaces(spark, self.config.catalog)
        except Exception as error:
            if (known := self.explain(error)) is not None:
                raise known from error
            prefix = f"spark.sql.catalog.{self.config.catalog}"
            raise ConfigError(
                f"the session's catalog {self.config.catalog!r} does not work: {first_line(error)}",
                where="sink iceberg",
                fix="describe it under `catalog.properties`, or where the session is built, for example:"
                f'\n      .config("{prefix}", "{self._catalog_class}")'
                f'\n      .config("{prefix}.type", "hadoop")'
                f'\n      .config("{prefix}.warehouse", "s3a://lake/warehouse")',
            ) from error

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.catalog is not None:
            namespaces = list_namespaces(spark, self.config.catalog)
            yield "sink iceberg", f"catalog {self.config.catalog}: answers, {len(namespaces)} namespaces"
        else:
            yield "sink iceberg", Folder(spark, self.config.warehouse or "").probe()

    def check_columns(self, table: Table, columns: Collection[str]) -> None:
        check_reader_names(self.config.readers, columns, table.name)

    def check_stored(self, spark: SparkSession, table: Table) -> None:
        if self.config.readers:
            with active(spark):
                java = load_table(spark, self._name(spark, table))
            if java is not None:
                self._choice.check_stored(java, table.name)

    @property
    def _choice(self) -> IcebergTableOptions:
        """What new tables are like."""
        table_type = self.config.table_type if "table_type" in self.config.model_fields_set else None
        return IcebergTableOptions(self.config.readers, table_type, self.config.options())

    @property
    def _catalog_class(self) -> str:
        return SESSION_CATALOG if self.config.catalog == "spark_catalog" else CATALOG

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if self.config.readers:
            check_reader_names(self.config.readers, list_names(rows.schema), table.name)
        spark, name = rows.sparkSession, self._name(rows.sparkSession, table)
        with active(spark):
            try:
                return self._write(table, name, rows, batch)
            finally:
                forget_table(spark, name)  # its metadata may be megabytes, and there are many tables

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        reader = spark.read.format("iceberg")
        if as_of is not None and as_of.isdigit() and len(as_of) > 8:
            reader = reader.option("snapshot-id", as_of)
        elif as_of is not None:
            reader = reader.option("as-of-timestamp", str(millis(spark, as_of)))
        with active(spark):
            address, exists = self._address(spark, table)
            missing = ConfigError(
                f"there is no table {table.name!r}",
                where=f"sink iceberg, {self.config.warehouse or self.config.catalog}",
                fix="run the pipeline, or correct the name",
            )
            if not exists:
                raise missing
            try:
                return reader.load(address)
            except Exception as error:
                if "TABLE_OR_VIEW_NOT_FOUND" in str(error):  # its first commit is under way, or never came to an end
                    raise missing from error
                raise self.explain(error) or error from error

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        return plan_maintenance(spark, self._name(spark, table), policy)

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        return measure_table(spark, self._name(spark, table))

    def explain(self, error: BaseException) -> HeadraceError | None:
        return translate(error) or (
            explain_missing_file(error, self.config.warehouse) if self.config.warehouse else None
        )

    def _write(self, table: Table, name: str, rows: DataFrame, batch: Batch) -> WriteResult:
        spark = rows.sparkSession
        java = load_table(spark, name)
        if java is None:
            fields = fields_of(table.name, self.config.partition_by)
            columns = [field.column for field in fields]
            if deferred := defer_creation(table, rows, batch, columns, "sink iceberg, partition.by"):
                return deferred
            self._create_namespace(spark, name)
            commit_with_mark(spark, batch, lambda: self._create(name, fields, rows, batch))
            return _write_result(load_table(spark, name), batch, whole=True)
        applied = is_applied(java, batch)
        if applied:
            return WriteResult(version=version_of(java), skipped=True)
        if batch.mode == "upsert":
            self._choice.check_mode(java, table.name)
        before = version_of(java)
        rows = _evolve_and_project(spark, name, java, rows)
        merges_on_read = java.properties().get("write.merge.mode") == "merge-on-read"
        if batch.mode == "append":
            # Appended rows have positions of their own: the table itself says which it has.
            if applied is None:
                columns = [quote_name(column) for column in rows.columns]
                rows = rows.join(spark.table(name).select(POSITION), POSITION, "left_anti").select(*columns)
            commit_with_mark(spark, batch, lambda: rows.drop(DELETED).writeTo(name).append())
        elif merges_on_read and can_have_deltas(spark, java):
            upsert(spark, name, java, table, rows, batch, by_key=self.reads_equality_deletes)
        elif merges_on_read:
            commit_with_mark(spark, batch, lambda: merge(spark, name, table, rows))
        else:
            with materialize(rows) as stable:  # it looks first for the files that the rows change
                commit_with_mark(spark, batch, lambda: merge(spark, name, table, stable))
        if version_of(java) == before:  # Spark has a table object of its own where its catalog keeps none
            java.refresh()
        return _write_result(java, batch, whole=merges_on_read or batch.mode == "append")

    def _name(self, spark: SparkSession, table: Table) -> str:
        catalog = self.config.catalog or catalog_of_folder(spark, qualify_path(spark, str(self.config.warehouse)))
        return ".".join(map(quote_name, [catalog, *table.parts]))

    def _address(self, spark: SparkSession, table: Table) -> tuple[str, bool]:
        """Where a reader finds a table, and whether there is one."""
        if self.config.warehouse is None:
            name = self._name(spark, table)
            return name, load_table(spark, name) is not None
        # By its path: nothing need be set in a session that is not headrace's.
        path = "/".join([qualify_path(spark, self.config.warehouse), *table.parts])
        return path, Folder(spark, f"{path}/metadata").exists()

    @staticmethod
    def _create_namespace(spark: SparkSession, name: str) -> None:
        namespace, _, _ = name.rpartition(".")
        if "." in namespace:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")

    def _create(self, name: str, fields: Sequence[PartitionField], rows: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as F

        if batch.mode == "upsert":
            rows = rows.where(~F.col(DELETED))
        writer = rows.drop(DELETED).writeTo(name).using("iceberg")
        if fields:
            writer = writer.partitionedBy(*[field.spark() for field in fields])
        size = {"write.spark.advisory-partition-size-bytes": str(_TASK_BYTES)}
        looked = {ORPHANS_PROPERTY: str(round(time.time() * 1000))}
        known = {**self._choice.properties(), **size, **METADATA_PROPERTIES, **looked, **self.config.options()}
        for key, value in known.items():
            writer = writer.tableProperty(key, value)
        writer.create()


def _evolve_and_project(spark: SparkSession, name: str, java: Any, rows: DataFrame) -> DataFrame:
    """Add to the table what is new in the rows; the rows in the table's columns and types."""
    stored = schema_of(spark, java)
    rows = spell_as_stored(rows, stored)
    schema = union_by_name(stored, rows.drop(DELETED).schema, can_widen)
    for clause in alter_clauses(stored, schema, partial(sql_of, spark)):
        spark.sql(f"ALTER TABLE {name} {clause}")
    return project(rows, schema.add(DELETED, "boolean"))


def _write_result(java: Any, batch: Batch, *, whole: bool) -> WriteResult:
    """``whole``: what was added is what was written; copy-on-write adds the rows beside those that changed as well."""
    snapshot = find_marked(java, batch)
    if snapshot is None:
        return WriteResult(upserted=0, version=version_of(java))
    summary = snapshot.summary()
    return WriteResult(
        upserted=int(summary.get("added-records") or 0) if whole else None,
        bytes=int(summary.get("added-files-size") or 0),
        version=str(snapshot.snapshotId()),
    )
