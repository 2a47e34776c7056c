"""Sinks that each break one requirement, and the kit test that must detect it."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.memory_sink import TABLES, MemorySink, Record, Version

from headrace.errors import ConfigError, DataError, NoSuchTableError, RetriableError
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.sink import Batch, Capabilities, Sink, Table, TableVersion, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: Sinks that a kit test must reject, by test.
BROKEN: dict[str, list[type[Sink]]] = {}
#: Deleted keys by store.
DELETED_KEYS: dict[str, set[Any]] = {}
#: First table of a batch, by store and mark of the batch.
MARKS: dict[tuple[str, str], str] = {}


#: Sink → kit tests that reject it for the same fault.
ALSO_FAILED: dict[type[Sink], set[str]] = {}


def also_fails(test: str) -> Any:
    """Register another kit test that may reject a sink."""

    def register(sink: type[Sink]) -> type[Sink]:
        ALSO_FAILED.setdefault(sink, set()).add(test)
        return sink

    return register


def fails(test: str) -> Any:
    """Register a sink with the kit test that must reject it."""

    def register(sink: type[Sink]) -> type[Sink]:
        BROKEN.setdefault(test, []).append(sink)
        return sink

    return register


@fails("test_reappending_a_batch_changes_nothing")
@fails("test_rewriting_a_batch_changes_nothing")
@fails("test_replay_does_not_replace_its_batch")
@fails("test_pickled_sink_finds_the_table")
class KeepsALock(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        self.lock = threading.Lock()
        return super().write(table, rows, batch)


@fails("test_pickled_sink_finds_the_table")
class KeepsTablesInTheInstance(MemorySink):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.tables: dict[str, list[Version]] = {}

    def versions(self, table: Table) -> list[Version]:
        return self.tables.setdefault(table.name, [])

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "tables": {}}


@fails("test_session_of_the_caller_is_unchanged")
class ChangesSettingsOfTheCaller(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        jvm: Any = rows.sparkSession._jvm
        callers = jvm.org.apache.spark.sql.SparkSession.getDefaultSession().get()
        callers.conf().set("spark.sql.broken", batch.pipeline)
        return super().write(table, rows, batch)


@fails("test_session_of_the_caller_is_unchanged")
class LeavesRowsCached(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return super().read_rows(rows.persist())


@fails("test_session_of_the_caller_is_unchanged")
class LeavesATemporaryView(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        rows.createOrReplaceTempView("left_behind")
        return super().read_rows(rows)


@fails("test_write_uses_the_session_of_the_rows")
class UsesTheActiveSession(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        from pyspark.sql import SparkSession

        rows.createOrReplaceTempView("arriving")
        session = SparkSession.getActiveSession()
        assert session is not None
        return super().read_rows(session.table("arriving"))


@fails("test_missing_table_is_reported")
class ReadsMissingTable(MemorySink):
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        return super().read_back(spark, table, as_of) if self.versions(table) else spark.sql("SELECT 1 AS id")


@fails("test_missing_table_is_reported")
class RaisesConfigErrorForMissingTable(MemorySink):
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        try:
            return super().read_back(spark, table, as_of)
        except NoSuchTableError as error:
            raise ConfigError(error.what) from error


@also_fails("test_late_row_is_ignored")
@fails("test_first_write_creates_the_table")
class ReportsWrongCount(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        super().write(table, rows, batch)
        return WriteResult(upserted=0)


@fails("test_first_write_creates_the_table")
class LosesPositions(MemorySink):
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        return super().read_back(spark, table, as_of).drop(POSITION)


@fails("test_append_keeps_every_row")
class WritesAtMostThousandRows(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return super().read_rows(rows.limit(1000))


@fails("test_append_keeps_every_row")
class AlwaysUpserts(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows, replace(batch, mode="upsert"))


@fails("test_empty_batch_changes_nothing")
class ReplacesTheTable(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        return (incoming, len(incoming)) if not incoming else super().upsert(table, old, incoming)


@also_fails("test_observations_count_the_written_rows")
@fails("test_empty_batch_changes_nothing")
class RequiresRows(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [rows.head(1)[0].asDict()][:0] + super().read_rows(rows)


@fails("test_failed_write_changes_nothing")
class LeavesPartOfAFailedWrite(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        try:
            return super().write(table, rows, batch)
        except Exception:
            part = replace(batch, pipeline=f"{batch.pipeline}part")
            # The kit's error is in the column name.
            super().write(table, rows.where(f"{POSITION} <= '0000000002'").drop("name"), part)
            raise


@fails("test_batches_of_two_pipelines_are_independent")
class IdentifiesBatchesByIdOnly(MemorySink):
    def mark(self, batch: Batch) -> Hashable:
        return batch.id


@fails("test_replay_does_not_replace_its_batch")
class IdentifiesPipelinesByPrefix(MemorySink):
    def mark(self, batch: Batch) -> Hashable:
        return batch.pipeline[:8], batch.id, batch.digest


@fails("test_batch_of_an_older_checkpoint_is_applied")
class IdentifiesBatchesByNumber(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows, replace(batch, digest=""))


@fails("test_appended_batch_of_an_older_checkpoint_is_completed_or_rejected")
class AppendsUnknownBatches(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows, replace(batch, pipeline=f"{batch.pipeline}/{batch.digest}", digest=""))


@fails("test_two_tables_are_written_concurrently")
class WritesAllToOneTable(MemorySink):
    def versions(self, table: Table) -> list[Version]:
        return super().versions(Table("the only one"))


@fails("test_two_tables_are_written_concurrently")
class NamesTablesByLastPart(MemorySink):
    def versions(self, table: Table) -> list[Version]:
        return super().versions(Table(table.parts[-1]))


@fails("test_two_tables_are_written_concurrently")
class RecordsBatchesWithoutTable(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        names = MARKS.setdefault((self.config.store, batch.mark), table.name)
        return super().write(table, rows, batch) if names == table.name else WriteResult(skipped=True)


@fails("test_input_is_read_once")
class ReadsTwice(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        rows.collect()
        return super().read_rows(rows)


@fails("test_observations_count_the_written_rows")
class ReadsWithRdd(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [row.asDict(recursive=True) for row in rows.rdd.collect()]


@fails("test_upsert_keeps_one_row_per_key")
class KeepsOldValueForNull(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        stored = {self.key(table, row): row for row in old.rows}
        kept = [
            {k: stored.get(self.key(table, row), row)[k] if v is None else v for k, v in row.items()}
            for row in incoming
        ]
        return super().upsert(table, old, kept)


@also_fails("test_single_column_key_of_each_type_identifies_rows")
@fails("test_upsert_keeps_one_row_per_key")
class AlwaysAppends(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        return [*old.rows, *incoming], len(incoming)


@fails("test_history_in_any_order_yields_the_same_table")
@fails("test_late_row_is_ignored")
class AppliesLateRows(MemorySink):
    def wins(self, row: Record, stored: Record | None) -> bool:
        return True


@fails("test_late_row_is_ignored")
class CountsLateRows(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        return super().upsert(table, old, incoming)[0], len(incoming)


@fails("test_repeated_row_changes_nothing")
class DuplicatesRowsOfEqualPosition(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        rows, changed = super().upsert(table, old, incoming)
        stored = {(self.key(table, row), row[POSITION]) for row in old.rows}
        return [*rows, *(row for row in incoming if (self.key(table, row), row[POSITION]) in stored)], changed


@fails("test_rewriting_a_batch_changes_nothing")
class RejectsRepeatedBatch(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if any(self.mark(batch) in version.batches for version in self.versions(table)):
            raise DataError("it is there already")
        return super().write(table, rows, batch)


@fails("test_reappending_a_batch_changes_nothing")
class AppendsRepeatedBatch(MemorySink):
    def mark(self, batch: Batch) -> Hashable:
        return object()


@fails("test_reappending_a_batch_changes_nothing")
class RecordsOnlyTheLastBatch(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        result = super().write(table, rows, batch)
        last = self.versions(table).pop()
        self.versions(table).append(Version(last.rows, last.schema, (self.mark(batch),)))
        return result


@fails("test_composite_key_identifies_rows")
class UsesOneKeyColumn(MemorySink):
    def key(self, table: Table, row: Record) -> Hashable:
        return str(row[table.key[0]])


@fails("test_composite_key_of_many_types_identifies_rows")
class IgnoresCaseOfKeys(MemorySink):
    def key(self, table: Table, row: Record) -> Hashable:
        return repr([str(row[column]).lower() for column in table.key])


@fails("test_composite_key_of_many_types_identifies_rows")
@fails("test_single_column_key_of_each_type_identifies_rows")
class TruncatesKeys(MemorySink):
    def key(self, table: Table, row: Record) -> Hashable:
        return repr([str(row[column])[:19] for column in table.key])


FAULT_IN_APPEND, FAULT_IN_UPSERT = (f"test_{mode}_survives_a_fault_at_any_step" for mode in ("append", "upsert"))


@fails("test_failed_write_changes_nothing")
@fails(FAULT_IN_APPEND)
@fails(FAULT_IN_UPSERT)
class RecordsBatchBeforeWrite(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        versions = self.versions(table)
        old = versions[-1] if versions else Version()
        if self.mark(batch) in old.batches:
            return WriteResult(skipped=True)
        versions.append(
            replace(old, schema=self.union(old, rows.drop(DELETED).schema), batches=(*old.batches, self.mark(batch)))
        )
        return super().write(table, rows, replace(batch, id=-batch.id - 1))


@fails(FAULT_IN_APPEND)
@fails(FAULT_IN_UPSERT)
class HidesConnectionErrors(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        with suppress(ConnectionError):
            return super().write(table, rows, batch)
        return WriteResult()


@fails(FAULT_IN_APPEND)
class RetriesWithoutCheck(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        try:
            return super().write(table, rows, batch)
        except ConnectionError:
            return super().write(table, rows, replace(batch, pipeline=f"{batch.pipeline} again"))


@fails(FAULT_IN_APPEND)
@fails(FAULT_IN_UPSERT)
class WritesRowByRow(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        for row in rows.orderBy(POSITION).collect():
            super().write(
                table,
                rows.where(rows[POSITION] == row[POSITION]),
                replace(batch, pipeline=f"{batch.pipeline} {row[POSITION]}"),
            )
        return super().write(table, rows.limit(0), batch)


@fails("test_relative_path_is_resolved_once_or_rejected")
class ResolvesPathInTheJvm(MemorySink):
    def versions(self, table: Table) -> list[Version]:
        return TABLES[str(Path(self.config.store).absolute()), table.name]

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        jvm: Any = rows.sparkSession._jvm
        path = Path(str(jvm.java.lang.System.getProperty("user.dir")), self.config.store)
        return MemorySink.write(type(self)(store=str(path)), table, rows, batch)


TWO_WRITERS = "test_two_pipelines_write_a_table_concurrently"


@fails(TWO_WRITERS)
class OverwritesConcurrentVersion(MemorySink):
    def commit(self, versions: list[Version], version: Version, seen: int) -> None:
        super().commit(versions, version, len(versions))


@fails(TWO_WRITERS)
class MergesOnlyMarksOfConcurrentVersion(MemorySink):
    def commit(self, versions: list[Version], version: Version, seen: int) -> None:
        marks = (*(mark for one in versions[-1:] for mark in one.batches), *version.batches)
        super().commit(versions, replace(version, batches=marks), len(versions))


@fails(TWO_WRITERS)
class RaisesFatalErrorOnConflict(MemorySink):
    def commit(self, versions: list[Version], version: Version, seen: int) -> None:
        try:
            super().commit(versions, version, seen)
        except RetriableError as error:
            raise DataError("the table is not what it was") from error


@fails("test_unavailable_value_keeps_the_stored_value")
class ReadsStringsAsNull(MemorySink):
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        from pyspark.sql import functions as F

        shown = super().read_back(spark, table, as_of)
        return shown.withColumn("text", F.lit(None).cast("string")) if "text" in shown.columns else shown


@fails("test_new_struct_field_is_added")
@fails("test_values_are_stored_unchanged")
@fails("test_late_value_fills_an_earlier_unavailable_value")
class StoresMapsAsNull(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [{k: None if isinstance(v, dict) else v for k, v in row.items()} for row in super().read_rows(rows)]


@fails("test_truncated_table_rejects_older_rows")
@fails("test_rows_that_the_source_no_longer_has_are_removed")
@fails("test_change_older_than_a_delete_is_ignored")
@fails("test_delete_removes_the_row")
class IgnoresDeletes(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [row for row in super().read_rows(rows) if not row[DELETED]]


@fails("test_delete_before_its_insert_removes_the_row")
@fails("test_delete_removes_the_row")
class KeepsDeletesOfAbsentKeys(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        rows, changed = super().upsert(table, old, incoming)
        stored = {self.key(table, row) for row in old.rows}
        return [*rows, *(row for row in incoming if row[DELETED] and self.key(table, row) not in stored)], changed


@fails("test_insert_after_a_delete_restores_the_row")
class NeverRestoresDeletedRows(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        incoming = super().read_rows(rows)
        deleted = DELETED_KEYS.setdefault(self.config.store, set())
        deleted |= {row["id"] for row in incoming if row[DELETED]}
        return [row for row in incoming if row["id"] not in deleted]


@fails("test_late_delete_is_ignored")
class AppliesLateDeletes(MemorySink):
    def wins(self, row: Record, stored: Record | None) -> bool:
        return row[DELETED] or super().wins(row, stored)


@fails("test_delete_before_the_first_row_creates_no_row")
class StoresDeletedRowsInNewTable(MemorySink):
    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        return super().upsert(table, old, incoming) if old.rows else (incoming, len(incoming))


@fails("test_values_are_stored_unchanged")
class StoresEmptyStringsAsNull(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [{k: None if v == "" else v for k, v in row.items()} for row in super().read_rows(rows)]


@fails("test_values_are_stored_unchanged")
class TruncatesMicroseconds(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [
            {k: v.replace(microsecond=0) if hasattr(v, "microsecond") else v for k, v in row.items()}
            for row in super().read_rows(rows)
        ]


@fails("test_unusual_column_names_are_stored_or_rejected")
class DoesNotQuoteColumnNames(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        return super().read_rows(rows.select(*rows.columns))


@fails("test_unusual_column_names_are_stored_or_rejected")
class RenamesColumns(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows.toDF(*[c.replace(" ", "_") for c in rows.columns]), batch)


def _keep_first(schema: DataType | None, incoming: DataType) -> DataType:
    return schema or incoming


@fails("test_new_column_with_an_unavailable_value_is_added")
@fails("test_new_column_is_added")
@fails("test_new_struct_field_is_added")
class KeepsItsFirstSchema(MemorySink):
    def union(self, old: Version, incoming: DataType) -> DataType:
        return _keep_first(old.schema, incoming)


@fails("test_missing_column_of_a_batch_is_null")
class WritesColumnsByIndex(MemorySink):
    def read_rows(self, rows: DataFrame) -> list[Record]:
        names = [c for c in ("id", "name", "born") if c in rows.columns]
        return super().read_rows(rows.toDF(*[*names, *rows.columns[len(names) :]]))


@fails("test_wider_type_is_stored_or_rejected")
@fails("test_incompatible_type_is_stored_as_string_or_rejected")
class CastsToNull(MemorySink):
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        versions = self.versions(table)
        stored: StructType | None = versions[-1].schema if versions else None  # type: ignore[assignment]
        if stored is not None:
            types = {field.name: field.dataType for field in stored}
            rows = rows.select(*[rows[c].cast(types.get(c, rows.schema[c].dataType)).alias(c) for c in rows.columns])
        return super().write(table, rows, batch)


@fails("test_older_versions_are_readable")
class IgnoresVersion(MemorySink):
    def version(self, table: Table, as_of: str | None) -> Version:
        return super().version(table, None)


@fails("test_current_version_has_the_current_rows")
class FindsTheFirstVersion(MemorySink):
    def find_version(self, spark: SparkSession, table: Table) -> str | None:
        return "v1" if self.versions(table) else None


@fails("test_listed_versions_are_read")
class ListsTheNewestVersionFirst(MemorySink):
    def list_versions(self, spark: SparkSession, table: Table) -> list[TableVersion]:
        return super().list_versions(spark, table)[::-1]


class MinimalSink(MemorySink):
    """Sink without optional capabilities."""

    capabilities = Capabilities()


@fails("test_time_travel_is_rejected")
class IgnoresAsOf(MinimalSink):
    def version(self, table: Table, as_of: str | None) -> Version:
        return super().version(table, None)


@fails("test_new_column_is_rejected")
class DropsNewColumns(MinimalSink):
    def union(self, old: Version, incoming: DataType) -> DataType:
        return _keep_first(old.schema, incoming)
