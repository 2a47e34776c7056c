"""Catalog entries of Hudi tables, the same as those of Hudi's own sync to Hive's metastore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.sdk import CatalogTable, ConfigError, Partitions, Storage
from headrace_sinks.hudi import hudi_schema, hudi_timeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: Suffix of the table's name → whether the input format reads log files, and whether Spark leaves them out.
_MERGE_ON_READ = {"": (True, False), "_ro": (False, True), "_rt": (True, False)}
_COPY_ON_WRITE = {"": (False, False)}


class HudiTable:
    """Existing Hudi table."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._table = hudi_timeline.open_table(spark, path)
        self._config = self._table.getTableConfig()
        #: Schema, which is read when the folders of a partition have only digits.
        self._columns: StructType | None = None

    @property
    def suffixes(self) -> Iterable[str]:
        """Suffixes of the table's name, one for each query type."""
        return self._views

    def describe(self, suffix: str) -> CatalogTable:
        """Describe the current table for one query type."""
        columns = hudi_schema.read_schema(self._spark, self._table, with_meta_fields=True)
        assert columns is not None, "the table has a commit"
        with_logs, without_logs = self._views[suffix]
        file_format = self._config.getBaseFileFormat()
        classes = self._jvm.org.apache.hudi.hadoop.utils.HoodieInputFormatUtils
        storage = Storage(
            provider="hudi",
            input_format=str(classes.getInputFormatClassName(file_format, with_logs)),
            output_format=str(classes.getOutputFormatClassName(file_format)),
            serde=str(classes.getSerDeClassName(file_format)),
            serde_properties={"hoodie.query.as.ro.table": "true" if without_logs else "false"},
        )
        return CatalogTable(self._path, columns, storage, tuple(self._partition_fields))

    def list_partitions(self) -> Partitions:
        """List all partitions."""
        hudi = self._jvm.org.apache.hudi
        context = hudi.client.common.HoodieSparkEngineContext(self._spark.sparkContext._jsc)  # noqa: SLF001
        return self.locate(hudi.common.fs.FSUtils.getAllPartitionPaths(context, self._table, False))

    def locate(self, folders: Iterable[str]) -> Partitions:
        """Return the partitions of folders in the table's folder."""
        fields = self._partition_fields
        return {self._parse_values(str(folder)): f"{self._path}/{folder}" for folder in folders} if fields else {}

    def _parse_values(self, folder: str) -> tuple[str, ...]:
        """Parse the values of the partition columns from a folder."""
        fields, parts = self._partition_fields, folder.split("/")
        if self._config.getHiveStylePartitioningEnable() == "true":
            parts[: len(fields)] = map(str.removeprefix, parts, (f"{field}=" for field in fields))
        if len(fields) == 1:
            parts = [("-" if self._is_day(fields[0], parts) else "/").join(parts)]
        if len(parts) != len(fields):
            raise ConfigError(
                f"partition {folder!r} has {len(parts)} folders, but the table is partitioned by {', '.join(fields)}",
                where=f"table {self._path}",
                fix="remove `sync`, or partition by plain columns",
            )
        return tuple(map(unquote, parts) if self._config.getUrlEncodePartitioning() == "true" else parts)

    def _is_day(self, column: str, parts: Sequence[str]) -> bool:
        """Return whether the folders of a partition are a day: 2024/02/29. The slashes of a string are its own."""
        if not all(part.isdigit() for part in parts):
            return False
        if self._config.getSlashSeparatedDatePartitioning():
            return [len(part) for part in parts] == [4, 2, 2]
        return not self._is_string(column)

    def _is_string(self, column: str) -> bool:
        from pyspark.sql.types import StringType

        if self._columns is None:
            self._columns = hudi_schema.read_schema(self._spark, self._table, with_meta_fields=False)
        assert self._columns is not None, "the table has a commit"
        # Hudi's sync gives a column that is not in the table the type string.
        types = {field.name.lower(): field.dataType for field in self._columns}
        return isinstance(types.get(column.lower(), StringType()), StringType)

    @property
    def _views(self) -> dict[str, tuple[bool, bool]]:
        return _MERGE_ON_READ if str(self._table.getTableType()) == "MERGE_ON_READ" else _COPY_ON_WRITE

    @property
    def _partition_fields(self) -> list[str]:
        fields = self._config.getPartitionFields()
        return [str(field) for field in fields.get()] if fields.isPresent() else []
