"""Sink for Hudi tables: upserts by record key, ordered by position, with the batch's mark in the commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from headrace.sdk import (
    Batch,
    Capabilities,
    HeadraceError,
    MaintenancePolicy,
    MaintenanceStep,
    NoSuchTableError,
    Plugin,
    SinkConfig,
    Sync,
    Table,
    TableMode,
    TableSize,
    WriteResult,
)
from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.sdk.sessions import read_once
from headrace.sdk.storage import Folder, qualify_path
from headrace_sinks.deferred_creation import check_partition_columns, defer_creation
from headrace_sinks.file_formats import ANCIENT_DATES, check_avro_columns
from headrace_sinks.folder_sink import FolderSink
from headrace_sinks.hudi import hudi_schema, hudi_timeline
from headrace_sinks.hudi.file_slices import list_file_slices
from headrace_sinks.hudi.foreign_table import Expected, ForeignTable, check_only_pipeline, open_existing
from headrace_sinks.hudi.hudi_catalog_table import HudiTable
from headrace_sinks.hudi.hudi_clock import UTC, wait_for_instants
from headrace_sinks.hudi.hudi_errors import explain
from headrace_sinks.hudi.hudi_index import Index
from headrace_sinks.hudi.hudi_readers import load_readers
from headrace_sinks.hudi.hudi_rows import IS_DELETED, add_positions, cache, drop_deleted, to_hudi_rows
from headrace_sinks.hudi.hudi_table_options import TYPE, HudiTableOptions, TableType
from headrace_sinks.hudi.hudi_table_services import TableServices, list_inline_options
from headrace_sinks.hudi.jol_warnings import suppress_jol_warnings
from headrace_sinks.hudi.partition_paths import PARTITION, PartitionPaths, has_own_generator
from headrace_sinks.hudi.protected_options import check_options, check_record_key
from headrace_sinks.hudi.record_keys import (
    ENCODED_KEY,
    RECORD_KEY,
    add_record_key,
    check_stored_mode,
    choose_record_key,
    find_ambiguous,
    has_plain_key,
)
from headrace_sinks.hudi.table_takeover import Takeover
from headrace_sinks.nested_tables import TableFolders
from headrace_sinks.other_formats import check_other_formats
from headrace_sinks.reader_support import check_reader_names, check_readers, list_names
from headrace_sinks.stored_types import check_stored_key, describe_changes, spell_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.sink import TableVersion


class HudiConfig(SinkConfig):
    """Options of the sink ``hudi``. Options of Hudi (``hoodie.…``) pass through and override headrace's defaults.

    Options that would make rows wrong are rejected.
    """

    passthrough: ClassVar[tuple[str, ...]] = ("hoodie.*",)

    path: str
    """Folder with a subfolder for each table."""

    table_type: TableType = Field("MERGE_ON_READ", alias="table.type")
    """Type of new tables: MERGE_ON_READ writes changes to log files until compaction, COPY_ON_WRITE rewrites files in each batch.
    With ``readers`` the default is MERGE_ON_READ if all of them support it.
    """

    readers: tuple[str, ...] = ()
    """Query engines that read the tables (``[spark, athena]``). New tables use only features that all of them support."""

    take_over: bool = Field(False, alias="take.over")
    """Continue existing tables of another writer of Hudi, such as Hudi Streamer. The first batch of a table rewrites its rows once, and the
    other writer must be stopped before.
    """

    sync: Sync = None
    """Catalog in which the tables are registered for query engines."""

    @field_validator("readers")
    @classmethod
    def _check_readers(cls, readers: tuple[str, ...]) -> tuple[str, ...]:
        check_readers(readers, load_readers(), "Hudi")
        return readers


class HudiSink(FolderSink):
    """``hudi: {path: lake/, table.type: MERGE_ON_READ}``."""

    name = "hudi"
    api_version = 1
    Config = HudiConfig
    config: HudiConfig
    capabilities = Capabilities(
        upsert=True, delete=True, schema_evolution=True, exactly_once=True, single_pass=True, time_travel=True
    )
    hidden_prefixes = (PREFIX, "_hoodie_")
    sql_conf = ANCIENT_DATES
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {"3.5": ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",)}
    jvm_class = "org.apache.hudi.DefaultSource"

    def parts(self) -> Sequence[Plugin]:
        return [self.config.sync] if self.config.sync else []

    def session_conf(self) -> dict[str, str]:
        # Hudi's SQL extension is left out: the sink uses no SQL of Hudi, and the extension's rules would run on every plan.
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            # Parquet's old list structure cannot store an array with a null element.
            "spark.hadoop.parquet.avro.write-old-list-structure": "false",
            **dict.fromkeys(("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), UTC),
        }

    def check(self, spark: SparkSession | None = None) -> None:
        self._table_options.write_options()
        self._index.check()
        check_options(self.config.options())

    def warnings(self) -> Iterable[str]:
        return self._table_options.warnings()

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "sink hudi", Folder(spark, self.config.path).probe()

    def check_table(self, table: Table, mode: TableMode) -> None:
        self._index.check_table(table, mode)
        check_record_key(self.config.options(), table, mode)

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        check_reader_names(self.config.readers, columns, table.name)
        check_avro_columns(columns, "Hudi")

    def check_new(self, table: Table, columns: Collection[str]) -> None:
        check_partition_columns(table, columns, self._index.partition_columns, f"sink hudi, {PARTITION}")

    def check_stored(self, spark: SparkSession, table: Table) -> str | None:
        stored = open_existing(spark, self._path(spark, table), table, takes_over=self.config.take_over)
        if stored is None:
            return None
        foreign = self._check_stored(spark, stored, hudi_timeline.NewestCommits(stored), table)
        return foreign.describe() if foreign else None

    def find_unsupported(self, spark: SparkSession, table: Table, mode: TableMode, row: StructType) -> Column | None:
        from pyspark.sql import functions as F

        is_plain = mode != "upsert" or has_plain_key(table, row)
        if is_plain and not self._index.partition_columns:
            return None
        stored = hudi_timeline.read_config(spark, self._path(spark, table))
        unsupported = ~F.col(DELETED) & self._partition_paths(stored).find_unsupported(row)
        record_key = choose_record_key(table, mode, row, self.config.options(), stored)
        if is_plain or record_key == [ENCODED_KEY]:
            return unsupported
        return unsupported | find_ambiguous(row, table.key, has_buckets=self._index.kind == "BUCKET")

    def _check_stored(
        self, spark: SparkSession, stored: Any, commits: hudi_timeline.NewestCommits, table: Table
    ) -> ForeignTable | None:
        """Raise ConfigError for a table that contradicts the options. Return a table of another writer, which has no positions."""
        if self.config.readers:
            self._table_options.check_stored(stored.getTableConfig(), table.name)
        described = hudi_timeline.find_index(commits)
        expected = Expected(table, self.config.options(), self._table_options, self._index)
        foreign = ForeignTable.find(spark, stored, expected) if described is None else None
        if foreign is not None:
            foreign.check(takes_over=self.config.take_over)
        self._index.check_stored(stored.getTableConfig(), described, table.name)
        self._partition_paths(stored.getTableConfig()).check_options(self.config.options(), table.name)
        if self._index.has_fixed_buckets and (described is None or hudi_timeline.has_replaced_files(stored)):
            self._index.check_files((item.file_id for item in list_file_slices(spark, stored)), table.name)
        return foreign

    @cached_property
    def _folders(self) -> TableFolders:
        return TableFolders(
            "hudi",
            hudi_timeline.has_table,
            hudi_timeline.has_partitions,
            "where a partition may have the same name",
            "and a partition may have the same name",
        )

    @property
    def _index(self) -> Index:
        return Index(self.config.options())

    def _partition_paths(self, stored: Any | None) -> PartitionPaths:
        """Return the layout of a table. ``stored``: the HoodieTableConfig of an existing table."""
        columns = self._index.partition_columns
        if stored is None:
            return PartitionPaths.of_new_table(columns, self.config.options())
        return PartitionPaths.of_table(columns, stored)

    @property
    def _table_options(self) -> HudiTableOptions:
        table_type = self.config.table_type if "table_type" in self.config.model_fields_set else None
        return HudiTableOptions(self.config.readers, table_type, self.config.options())

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if self.config.readers:
            check_reader_names(self.config.readers, list_names(rows.schema), table.name)
        spark, path = rows.sparkSession, self._path(rows.sparkSession, table)
        suppress_jol_warnings(spark)
        stored = open_existing(spark, path, table, takes_over=self.config.take_over)
        is_partitioned = bool(self._index.partition_columns)
        self._folders.check(spark, table.name, path, is_stored=stored is not None, is_exclusive=is_partitioned)
        if stored is not None:
            commits = hudi_timeline.NewestCommits(stored)
            foreign = self._check_stored(spark, stored, commits, table)
            last = hudi_timeline.find_last_commit(commits, batch)
            # A batch that may be in the table is applied again: positions decide, and they are the keys of appended rows.
            if last is not None and batch.is_applied([last.mark]):
                self._register(spark, table, path, last)
                return WriteResult(version=last.instant, skipped=True)
            check_only_pipeline(commits, batch, table, takes_over=self.config.take_over and foreign is None)
            wait_for_instants(spark, stored)
            if foreign is not None:
                self._take_over(table, rows, batch, foreign)
                stored = hudi_timeline.open_table(spark, path)
        elif deferred := defer_creation(table, rows, batch, self._index.partition_columns, f"sink hudi, {PARTITION}"):
            return deferred
        else:
            check_other_formats(spark, table.name, path, self.name)
            hudi_timeline.discard_unfinished(spark, path)
        return self._commit(table, rows, batch, stored)

    def _take_over(self, table: Table, rows: DataFrame, batch: Batch, foreign: ForeignTable) -> None:
        """Add positions to a table of another writer, if the rows of the batch fit its columns."""
        paths = self._partition_paths(foreign.stored.getTableConfig())
        takeover = Takeover(rows.sparkSession, self._path(rows.sparkSession, table), foreign)
        takeover.check(rows, batch, paths)
        own = {RECORD_KEY: ",".join(foreign.record_key), **paths.write_options()}
        options = self._options(table, batch, "upsert", foreign.stored, own)
        del options[hudi_timeline.MARK]  # The commit of the batch follows.
        takeover.run(options)

    def _commit(self, table: Table, rows: DataFrame, batch: Batch, stored: Any | None) -> WriteResult:
        """Write and commit the rows of a batch. ``stored``: the HoodieTableMetaClient of the table; None for a new table."""
        spark, path = rows.sparkSession, self._path(rows.sparkSession, table)
        config = stored.getTableConfig() if stored is not None else None
        if config is not None:
            check_stored_mode(table, batch.mode, config)
        paths = self._partition_paths(config)
        if not has_own_generator(self.config.options()):
            paths.check_types(rows.schema, table.name)
        columns = hudi_schema.read_schema(spark, stored) if stored is not None else None
        if columns is not None:
            hudi_schema.check_members(columns, table.name)
            if batch.mode == "upsert":
                check_stored_key(columns, table.key, table.name, self.name)
            table = replace(table, key=spell_names(spark, table.key, columns))
        fixed = {*self._index.partition_columns, *(table.key if batch.mode == "upsert" else ())}
        rows = to_hudi_rows(paths.guard(rows), batch, columns, fixed)
        written = rows.drop(IS_DELETED).schema
        record_key = choose_record_key(table, batch.mode, rows.schema, self.config.options(), config)
        rows = add_record_key(rows, table, record_key)
        operation = "upsert"
        is_plain = record_key != list(table.key) or has_plain_key(table, rows.schema)
        if stored is None and self._index.has_buckets and is_plain:
            rows, operation = drop_deleted(rows, batch), "bulk_insert"
        # An index that searches for keys reads the rows twice.
        with (read_once if self._index.has_buckets else cache)(rows) as read:
            own = {RECORD_KEY: ",".join(record_key), **paths.write_options()}
            options = self._options(table, batch, operation, stored, own)
            read.write.format("hudi").options(**options).mode("append").save(path)
        commit = hudi_timeline.find_last_commit(
            hudi_timeline.NewestCommits(hudi_timeline.open_table(spark, path)), batch
        )
        if commit is None:
            return WriteResult()
        self._register(spark, table, path, commit)
        changes = describe_changes(columns, written) if columns is not None else ()
        return WriteResult(commit.upserted, commit.bytes, commit.instant, schema_changes=changes)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        path = self._path(spark, table)
        missing = NoSuchTableError(
            f"there is no table {table.name!r}",
            where=f"sink hudi, path {self.config.path}",
            fix="run the pipeline, or correct the name",
        )
        if not hudi_timeline.has_table(spark, path):
            raise missing
        suppress_jol_warnings(spark)
        # By default Spark refuses dates before 1582, as Spark 2 writes them in another calendar.
        reader = spark.read.format("hudi").option("datetimeRebaseMode", "CORRECTED")
        if as_of is not None:
            where = f"table {table.name}, sink hudi, path {self.config.path}"
            instant = hudi_timeline.find_version(spark, path, as_of, where)
            reader = reader.option("as.of.instant", instant)
        frame = reader.load(path)
        if not frame.columns:  # the first commit is in progress, or failed
            raise missing
        return hudi_schema.show_members(add_positions(frame))

    def find_version(self, spark: SparkSession, table: Table) -> str | None:
        return hudi_timeline.find_newest_version(spark, self._path(spark, table))

    def list_versions(self, spark: SparkSession, table: Table) -> Sequence[TableVersion]:
        return hudi_timeline.describe_versions(spark, self._path(spark, table))

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        yield from services.plan(policy) if (services := self._services(spark, table)) else ()

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        return services.measure() if (services := self._services(spark, table)) else None

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain(error, self.config.path)

    def _path(self, spark: SparkSession, table: Table) -> str:
        return "/".join([qualify_path(spark, self.config.path), *table.parts])

    def _services(self, spark: SparkSession, table: Table) -> TableServices | None:
        """Return the services of a table; None when it does not exist."""
        path = self._path(spark, table)
        if not hudi_timeline.has_table(spark, path):
            return None
        suppress_jol_warnings(spark)
        return TableServices(spark, path, self._defaults(table), self._user_options)

    @property
    def _user_options(self) -> dict[str, str]:
        """The configured options, and those that the readers require."""
        return {**self._table_options.write_options(), **self.config.options()}

    def _register(self, spark: SparkSession, table: Table, path: str, commit: hudi_timeline.Commit) -> None:
        """Register the table with a catalog after a commit."""
        if self.config.sync is None:
            return
        hudi = HudiTable(spark, path)
        for suffix in hudi.suffixes:
            describe = partial(hudi.describe, suffix)
            self.config.sync.register(
                table.name + suffix, describe, hudi.locate(commit.partitions), hudi.list_partitions
            )

    def _options(
        self, table: Table, batch: Batch, operation: str, stored: Any | None, layout: Mapping[str, str]
    ) -> dict[str, str]:
        """Build the writer's options for a batch.

        ``stored``: the HoodieTableMetaClient of the table; None for a new table. ``layout``: options of its keys and partition paths.
        """
        options, own = self._defaults(table), self.config.options()
        options |= {
            "hoodie.datasource.write.operation": operation,
            **layout,
            # The batch has one row per key already.
            "hoodie.combine.before.upsert": "false",
            "hoodie.write.set.null.for.missing.columns": "true",
            # A check for a clean after each commit takes a tenth of the time of a small commit.
            "hoodie.clean.trigger.max.commits": "10",
        }
        if batch.is_maintained:
            options |= list_inline_options(self._user_options)
        metadata = {"hoodie.datasource.write.commitmeta.key.prefix": hudi_timeline.PREFIX}
        metadata |= {hudi_timeline.MARK: batch.mark, hudi_timeline.INDEX: self._index.describe()}
        return {**options, **own, **(_list_fixed_options(stored) if stored is not None else {}), **metadata}

    def _defaults(self, table: Table) -> dict[str, str]:
        """Build the default options of a table for writes and table services; configured options override them."""
        return {
            "hoodie.table.name": "_".join(table.parts),
            **self._table_options.write_options(),
            "hoodie.table.ordering.fields": POSITION,
            # docs/decisions: small commits need neither a metadata table nor a timeline server.
            **self._index.write_options(),
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            # By default readers do not use the positions of rows. To record them, the writer would list all files of the
            # partition for each file that a batch changes.
            "hoodie.write.record.positions": "false",
            # Hudi suspects two encodings of one key column. A takeover checks that each key has one row, and encodes all keys again.
            "hoodie.write.complex.keygen.validation.enable": "false",
        }


def _list_fixed_options(stored: Any) -> dict[str, str]:
    """Return options that do not change in an existing table. The configured type is that of new tables. ``stored``: its HoodieTableMetaClient."""
    return {TYPE: str(stored.getTableType()), "hoodie.table.name": str(stored.getTableConfig().getTableName())}
