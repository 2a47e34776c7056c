"""Hudi tables: upsert by record key, ordered by position, the batch's mark in the commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

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
    Sync,
    Table,
    TableMode,
    TableSize,
    WriteResult,
)
from headrace.sdk.changes import DELETED, POSITION, PREFIX
from headrace.sdk.schemas import check_names, project, widen_small_ints
from headrace.sdk.sessions import read_once
from headrace.sdk.storage import Folder, qualify_path
from headrace_sinks.as_of import to_millis
from headrace_sinks.deferred_creation import defer_creation
from headrace_sinks.file_formats import ANCIENT_DATES
from headrace_sinks.hudi import hudi_schema, hudi_timeline
from headrace_sinks.hudi.file_slices import list_file_slices
from headrace_sinks.hudi.hudi_catalog_table import HudiTable
from headrace_sinks.hudi.hudi_errors import explain
from headrace_sinks.hudi.hudi_index import PARTITION, Index
from headrace_sinks.hudi.hudi_readers import load_readers
from headrace_sinks.hudi.hudi_table_options import TYPE, HudiTableOptions, TableType
from headrace_sinks.hudi.hudi_table_services import TableServices, list_inline_options
from headrace_sinks.hudi.jol_warnings import suppress_jol_warnings
from headrace_sinks.hudi.protected_options import RECORD_KEY, check_options, check_record_key, name_record_key
from headrace_sinks.reader_support import check_reader_names, check_readers, list_names
from headrace_sinks.stored_types import spell_as_stored, union_by_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_IS_DELETED = "_hoodie_is_deleted"
#: Key types that Hudi's writer of whole files spells as its upsert does; others would be found under two keys.
_PLAIN_KEYS = ("string", "int", "bigint", "date", "boolean")


class HudiConfig(SinkConfig):
    """Hudi tables; options of Hudi's (``hoodie.…``) pass through under their own names and win over headrace's, but for some with
    which rows would be wrong: these are refused.
    """

    passthrough: ClassVar[tuple[str, ...]] = ("hoodie.*",)

    path: str
    """The folder in which every table has one."""

    table_type: TableType = Field("MERGE_ON_READ", alias="table.type")
    """Of new tables: whether changes lie beside the files until these are compacted, or each batch writes its files anew. With
    ``readers`` the default is what all of them read.
    """

    readers: tuple[str, ...] = ()
    """The engines that read the tables (``[spark, athena]``): new tables are such that all of them read them right."""

    sync: Sync = None
    """A catalog in which engines look the tables up. For Hive's metastore Hudi has a sync of its own (`hoodie.datasource.hive_sync.*`).
    """

    @field_validator("readers")
    @classmethod
    def _check_readers(cls, readers: tuple[str, ...]) -> tuple[str, ...]:
        check_readers(readers, load_readers(), "Hudi")
        return readers


class HudiSink(Sink):
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
    refuses: ClassVar[Mapping[str, str]] = {
        "4.0": "no Hudi bundle for Spark 4 is published where jars are resolved from"
    }
    jvm_class = "org.apache.hudi.DefaultSource"

    def parts(self) -> Sequence[Plugin]:
        return [self.config.sync] if self.config.sync else []

    def session_conf(self) -> dict[str, str]:
        # Without Hudi's extension of Spark's SQL: nothing here is its SQL, and its rules go over each step of every plan.
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            # The other structure, Parquet's oldest, cannot hold an array with a null in it.
            "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        }

    def check(self, spark: SparkSession | None = None) -> None:
        self._choice.write_options()
        self._index.check()
        check_options(self.config.options())

    def warnings(self) -> Iterable[str]:
        return self._choice.warnings()

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "sink hudi", Folder(spark, self.config.path).probe()

    def check_table(self, table: Table, mode: TableMode) -> None:
        self._index.check_table(table, mode)
        check_record_key(self.config.options(), table, mode)

    def check_columns(self, table: Table, columns: Collection[str]) -> None:
        check_reader_names(self.config.readers, columns, table.name)

    def check_stored(self, spark: SparkSession, table: Table) -> None:
        path = self._path(spark, table)
        if Folder(spark, f"{path}/.hoodie").exists():
            stored = hudi_timeline.open_table(spark, path)
            self._check_stored(spark, stored, hudi_timeline.NewestCommits(stored), table)

    def _check_stored(
        self, spark: SparkSession, stored: Any, commits: hudi_timeline.NewestCommits, table: Table
    ) -> None:
        if self.config.readers:
            self._choice.check_stored(stored.getTableConfig(), table.name)
        described = hudi_timeline.find_index(commits)
        self._index.check_stored(stored.getTableConfig(), described, table.name)
        if self._index.has_fixed_buckets and (described is None or hudi_timeline.has_replaced_files(stored)):
            self._index.check_files((item.file_id for item in list_file_slices(spark, stored)), table.name)

    @property
    def _index(self) -> Index:
        """How a row is found."""
        return Index(self.config.options())

    @property
    def _choice(self) -> HudiTableOptions:
        """What new tables are like."""
        table_type = self.config.table_type if "table_type" in self.config.model_fields_set else None
        return HudiTableOptions(self.config.readers, table_type, self.config.options())

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if self.config.readers:
            check_reader_names(self.config.readers, list_names(rows.schema), table.name)
        spark, path = rows.sparkSession, self._path(rows.sparkSession, table)
        suppress_jol_warnings(spark)
        stored = hudi_timeline.open_table(spark, path) if Folder(spark, f"{path}/.hoodie").exists() else None
        if stored is not None:
            commits = hudi_timeline.NewestCommits(stored)
            self._check_stored(spark, stored, commits, table)
            last = hudi_timeline.last_commit(commits, batch)
            if last is not None and last.mark == batch.mark:
                self._register(spark, table, path, last)
                return WriteResult(version=last.instant, skipped=True)
        elif deferred := defer_creation(table, rows, batch, self._index.partition_columns, f"sink hudi, {PARTITION}"):
            return deferred
        rows, operation = (
            _to_hudi_rows(rows, batch, hudi_schema.read_schema(spark, stored) if stored else None),
            "upsert",
        )
        if stored is None and self._index.has_buckets and _has_plain_keys(rows, table, batch):
            rows, operation = _drop_deleted(rows, batch), "bulk_insert"
        # What has to look for a key reads the rows for that, and then again.
        with (read_once if self._index.has_buckets else _cache)(rows) as read:
            options = self._options(table, batch, operation, stored)
            read.write.format("hudi").options(**options).mode("append").save(path)
        commit = hudi_timeline.last_commit(hudi_timeline.NewestCommits(hudi_timeline.open_table(spark, path)), batch)
        if commit is None:
            return WriteResult()
        self._register(spark, table, path, commit)
        return WriteResult(upserted=commit.upserted, bytes=commit.bytes, version=commit.instant)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        path = self._path(spark, table)
        missing = ConfigError(
            f"there is no table {table.name!r}",
            where=f"sink hudi, path {self.config.path}",
            fix="run the pipeline, or correct the name",
        )
        if not Folder(spark, f"{path}/.hoodie").exists():
            raise missing
        suppress_jol_warnings(spark)
        # Without the option Spark refuses dates before 1582, lest Spark 2 had written them.
        reader = spark.read.format("hudi").option("datetimeRebaseMode", "CORRECTED")
        if as_of is not None:
            is_instant = as_of.isdigit() and len(as_of) in (14, 17)
            instant = as_of if is_instant else hudi_timeline.instant_of(spark, path, to_millis(spark, as_of))
            versions = hudi_timeline.read_versions(hudi_timeline.open_table(spark, path))
            if versions is None or instant < versions.oldest:
                oldest = versions and versions.oldest
                raise ConfigError(
                    f"the table {table.name!r} keeps no version as old as {as_of!r}; its oldest is of {oldest}",
                    where=f"sink hudi, path {self.config.path}",
                    fix="name a later time; a longer `history` under `maintenance:` keeps more (where that is off, "
                    "`hoodie.clean.commits.retained` and `hoodie.keep.min.commits`)",
                )
            reader = reader.option("as.of.instant", instant)
        try:
            frame = reader.load(path)
        except Exception as error:
            if "TableNotFoundException" in str(error):  # the folder is there, and what makes it a table not yet
                raise missing from error
            raise
        if not frame.columns:  # its first commit is under way, or never came to an end
            raise missing
        return frame

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        services = self._services(spark, table)
        yield from services.plan(policy) if services else ()

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        services = self._services(spark, table)
        return services.measure() if services else None

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain(error, self.config.path)

    def _path(self, spark: SparkSession, table: Table) -> str:
        return "/".join([qualify_path(spark, self.config.path), *table.parts])

    def _services(self, spark: SparkSession, table: Table) -> TableServices | None:
        """Those of a table; None when there is none."""
        path = self._path(spark, table)
        if not Folder(spark, f"{path}/.hoodie/hoodie.properties").exists():
            return None
        suppress_jol_warnings(spark)
        return TableServices(spark, path, self._defaults(table), self._wishes)

    @property
    def _wishes(self) -> dict[str, str]:
        """The user's own options, and what follows from those that read."""
        return {**self._choice.write_options(), **self.config.options()}

    def _register(self, spark: SparkSession, table: Table, path: str, commit: hudi_timeline.Commit) -> None:
        """Has a catalog know the table as it is after a commit."""
        if self.config.sync is None:
            return
        hudi = HudiTable(spark, path)
        for suffix in hudi.suffixes:
            describe = partial(hudi.describe, suffix)
            self.config.sync.register(
                table.name + suffix, describe, hudi.locate(commit.partitions), hudi.list_partitions
            )

    def _options(self, table: Table, batch: Batch, operation: str, stored: Any | None) -> dict[str, str]:
        """Of a batch. ``stored``: Hudi's own object for the table; None for a new one."""
        options, own = self._defaults(table), self.config.options()
        options |= {
            "hoodie.datasource.write.operation": operation,
            RECORD_KEY: name_record_key(table, batch.mode),
            # The batch has one row per key already.
            "hoodie.combine.before.upsert": "false",
            "hoodie.write.set.null.for.missing.columns": "true",
            # To look after each commit what may go costs a tenth of a small one.
            "hoodie.clean.trigger.max.commits": "10",
        }
        if batch.is_maintained:
            options |= list_inline_options(self._wishes)
        notes = {"hoodie.datasource.write.commitmeta.key.prefix": hudi_timeline.PREFIX}
        notes |= {hudi_timeline.MARK: batch.mark, hudi_timeline.INDEX: self._index.describe()}
        # The options say of what type new tables are, and that of one that is there does not change.
        kept = {TYPE: str(stored.getTableType())} if stored is not None else {}
        return {**options, **own, **kept, **notes}

    def _defaults(self, table: Table) -> dict[str, str]:
        """What a table is like, whatever is done to it, unless the user says otherwise."""
        return {
            "hoodie.table.name": "_".join(table.parts),
            **self._choice.write_options(),
            "hoodie.table.ordering.fields": POSITION,
            # docs/decisions: small commits need neither a metadata table nor a server that tells tasks of files.
            **self._index.write_options(),
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            # Of the position of a row in its file readers make nothing unless they are told to, and for each file that a batch
            # changes the writer would list all files of the partition to say it.
            "hoodie.write.record.positions": "false",
        }


def _to_hudi_rows(rows: DataFrame, batch: Batch, stored: StructType | None) -> DataFrame:
    """The rows as Hudi's writer takes them: with deletes marked its way, no integers of which its writers disagree, and in the
    columns of the table, which Hudi itself would give any type that comes.
    """
    check_names(rows.schema, "Hudi")
    rows = rows.withColumnRenamed(DELETED, _IS_DELETED) if batch.mode == "upsert" else rows.drop(DELETED)
    if stored is None:
        return project(rows, widen_small_ints(rows.schema))
    rows = spell_as_stored(rows, stored)
    return project(rows, union_by_name(stored, widen_small_ints(rows.schema), hudi_schema.can_widen))


@contextmanager
def _cache(rows: DataFrame) -> Iterator[DataFrame]:
    cached = rows.persist()
    try:
        cached.count()
        yield cached
    finally:
        cached.unpersist()


def _drop_deleted(rows: DataFrame, batch: Batch) -> DataFrame:
    return rows.where(f"NOT {_IS_DELETED}") if batch.mode == "upsert" else rows


def _has_plain_keys(rows: DataFrame, table: Table, batch: Batch) -> bool:
    """Whether Hudi's writer of whole files spells the keys of these rows as its upsert does."""
    if batch.mode == "append":
        return True
    types = [rows.schema[column].dataType.simpleString() for column in table.key]
    # It takes an empty text among several key columns for a key that is not there.
    return all(name in _PLAIN_KEYS for name in types) and not (len(types) > 1 and "string" in types)
