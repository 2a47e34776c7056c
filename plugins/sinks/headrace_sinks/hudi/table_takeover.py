"""Takeover of a table that another writer created: headrace's ordering field, and a position in each row.

Hudi fails to compare a position with null. All rows are therefore rewritten once with an empty position, which is older than each event.
A killed process repeats the takeover: until the rows are rewritten, the table has no column for positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import Batch, DataError, RetriableError
from headrace.sdk.changes import POSITION
from headrace.sdk.columns import quote_name
from headrace_sinks.hudi import hudi_schema, hudi_timeline
from headrace_sinks.hudi.file_slices import list_file_slices
from headrace_sinks.hudi.foreign_table import OPTION, ForeignTable
from headrace_sinks.hudi.hudi_rows import IS_DELETED, make_nullable, to_hudi_rows
from headrace_sinks.hudi.hudi_table_services import TableServices, list_planned
from headrace_sinks.hudi.partition_paths import PartitionPaths
from headrace_sinks.hudi.record_keys import check_stored_mode, make_optional
from headrace_sinks.stored_types import spell_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDERING, _PRECOMBINE = "hoodie.table.ordering.fields", "hoodie.table.precombine.field"
_PAYLOAD = "hoodie.compaction.payload.class"
#: Properties by which the other writer merged rows.
_MERGE_PROPERTIES = (_PAYLOAD, "hoodie.table.legacy.payload.class", "hoodie.table.partial.update.mode", _PRECOMBINE)
_MERGE_PREFIX = "hoodie.record.merge.property."
#: Options of the write that adds positions. It makes NOT NULL columns nullable, which Hudi would undo.
_REWRITE = {
    "hoodie.datasource.write.operation": "insert_overwrite_table",
    "hoodie.combine.before.insert": "false",
    "hoodie.internal.write.schema.canonicalize": "false",
    "hoodie.write.set.null.for.missing.columns": "false",
}
_FIRST_VERSION_WITH_ORDERING_FIELDS = 9


class Takeover:
    """Steps of a takeover, in the session of the table's batch."""

    def __init__(self, spark: SparkSession, path: str, table: ForeignTable) -> None:
        self._spark, self._path, self._table = spark, path, table
        jvm: Any = spark._jvm  # noqa: SLF001
        self._jvm, self._hudi = jvm, jvm.org.apache.hudi

    def check(self, rows: DataFrame, batch: Batch, paths: PartitionPaths) -> None:
        """Raise ConfigError or DataError if the batch cannot be written to the table. ``paths``: the layout of its partition paths."""
        table = self._table.expected.table
        check_stored_mode(table, batch.mode, self._table.stored.getTableConfig())
        columns = hudi_schema.read_schema(self._spark, self._table.stored)
        assert columns is not None, "a foreign table has commits"
        hudi_schema.check_members(columns, table.name)
        paths.check_types(columns, table.name)
        key = spell_names(self._spark, table.key, columns)
        to_hudi_rows(rows, batch, make_optional(columns), {*paths.columns, *key})

    def run(self, options: Mapping[str, str]) -> None:
        """Take the table over. ``options``: those of a batch; they also are the options of the writer that rewrites the rows."""
        self._check_unique()
        ordering = {_ORDERING: ",".join(self._table.ordering)} if self._table.ordering else {}
        services = TableServices(self._spark, self._path, {**options, **ordering}, {})
        if self._table.version < self._table.next_version:
            self._upgrade(services)
        if self._table.is_merge_on_read:
            self._compact(services)
        self._set_ordering_field()
        rows = self._read_rows()
        rows.write.format("hudi").options(**{**options, **_REWRITE}).mode("append").save(self._path)

    def _check_unique(self) -> None:
        """Raise DataError if a key has several rows, because the other writer searched only one partition for it."""
        key = self._table.expected.table.key
        found = self._read().groupBy(*map(quote_name, key)).count().where("count > 1").count()
        if found:
            raise DataError(
                f"{found} keys have several rows, because the other writer did not remove a row from its previous partition",
                where=f"table {self._table.expected.table.name}, sink hudi, {OPTION}",
                fix="delete the outdated rows with Spark SQL, or load the rows into a new table in another `path`",
            )

    def _upgrade(self, services: TableServices) -> None:
        """Upgrade the table version. Hudi also compacts log files, by the old ordering field."""
        upgrade = self._hudi.table.upgrade
        table, version = (
            self._open(),
            self._hudi.common.table.HoodieTableVersion.fromVersionCode(self._table.next_version),
        )
        with services.open_client({}) as client:
            helper = upgrade.SparkUpgradeDowngradeHelper.getInstance()
            upgrade.UpgradeDowngrade(table, client.getConfig(), client.getEngineContext(), helper).run(version, None)

    def _compact(self, services: TableServices) -> None:
        """Compact all log files, whose deletes have values of the old ordering field."""
        with services.open_client({"hoodie.compact.inline.max.delta.commits": "1"}) as client:
            for instant in list_planned(self._open()):
                client.compact(instant, True)
            planned = client.scheduleCompaction(self._hudi.common.util.Option.empty())
            if planned.isPresent():
                client.compact(planned.get(), True)
        if any(item.logs for item in list_file_slices(self._spark, self._open())):
            raise RetriableError(
                "another writer added log files during the takeover",
                where=f"table {self._table.expected.table.name}, sink hudi, {OPTION}",
                fix="stop the other writer",
            )

    def _set_ordering_field(self) -> None:
        table, util = self._open(), self._jvm.java.util
        updated, deleted = util.Properties(), util.HashSet()
        wanted = self._list_merge_properties()
        for name in map(str, table.getTableConfig().getProps().stringPropertyNames()):
            if name not in wanted and (name in _MERGE_PROPERTIES or name.startswith(_MERGE_PREFIX)):
                deleted.add(name)
        for name, value in wanted.items():
            updated.setProperty(name, value)
        config = self._hudi.common.table.HoodieTableConfig
        config.updateAndDeleteProps(table.getStorage(), table.getMetaPath(), updated, deleted)

    def _list_merge_properties(self) -> dict[str, str]:
        """Return the properties of headrace's tables: the greater position wins."""
        if self._table.next_version < _FIRST_VERSION_WITH_ORDERING_FIELDS:
            payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
            ordering = {_PRECOMBINE: POSITION, _PAYLOAD: payload}
        else:
            ordering = {_ORDERING: POSITION}
        strategy = str(self._hudi.common.model.HoodieRecordMerger.EVENT_TIME_BASED_MERGE_STRATEGY_UUID)
        mode = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.record.merge.strategy.id": strategy}
        return {**ordering, **mode}

    def _read_rows(self) -> DataFrame:
        """Return the table's rows with an empty position. All columns are nullable, because a delete may have only the key."""
        from pyspark.sql import functions as F

        rows = self._read()
        rows = rows.drop(*_list_meta_columns(rows.columns))
        return make_nullable(rows.withColumn(POSITION, F.lit("")))

    def _read(self) -> DataFrame:
        return self._spark.read.format("hudi").option("datetimeRebaseMode", "CORRECTED").load(self._path)

    def _open(self) -> Any:
        return hudi_timeline.open_table(self._spark, self._path)


def _list_meta_columns(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name.startswith("_hoodie_") and name != IS_DELETED]
