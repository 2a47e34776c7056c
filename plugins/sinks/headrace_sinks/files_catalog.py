"""Tables of files as readers find them in a catalog: each batch is a partition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.sdk import CatalogTable, Folder, Partitions, Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: The column of a batch's name, which its folder has.
BATCH = "_headrace_batch"
_HIVE = "org.apache.hadoop.hive.ql.io"
#: Format → by which classes it is read and written.
_CLASSES = {
    "parquet": (
        f"{_HIVE}.parquet.MapredParquetInputFormat",
        f"{_HIVE}.parquet.MapredParquetOutputFormat",
        f"{_HIVE}.parquet.serde.ParquetHiveSerDe",
    ),
    "avro": (
        f"{_HIVE}.avro.AvroContainerInputFormat",
        f"{_HIVE}.avro.AvroContainerOutputFormat",
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
    ),
    "json": (
        "org.apache.hadoop.mapred.TextInputFormat",
        f"{_HIVE}.HiveIgnoreKeyTextOutputFormat",
        "org.apache.hive.hcatalog.data.JsonSerDe",
    ),
}


class FilesTable:
    """A table of files that is there. ``options``: those of Spark's writer."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Folder,
        file_format: str,
        options: Mapping[str, str],
        read_schema: Callable[[], StructType],
    ) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._folder, self._format, self._options, self._read_schema = folder, file_format, options, read_schema

    def describe(self) -> CatalogTable:
        """The table as it is now."""
        schema = self._read_schema()
        storage = Storage(self._format, *_CLASSES[self._format], self._serde_properties(schema))
        return CatalogTable(self._folder.path, schema, storage, (BATCH,), {"classification": self._format})

    def list_partitions(self) -> Partitions:
        """All of its batches."""
        return self.locate(name for name in self._folder.names(hidden=True) if name.startswith(f"{BATCH}="))

    def locate(self, names: Iterable[str]) -> Partitions:
        """Batches by the names of their folders."""
        return {(unquote(name.removeprefix(f"{BATCH}=")),): f"{self._folder.path}/{name}" for name in names}

    def _serde_properties(self, schema: StructType) -> dict[str, str]:
        if self._format == "avro":
            return {"avro.schema.literal": self._avro_schema(schema)}
        if self._format == "json":  # Spark takes them for options; Hive's patterns are Joda's, and Spark's are Java's
            return {**self._options, "timestamp.formats": self._options["timestampFormat"].replace("XXX", "ZZ")}
        return {}

    def _avro_schema(self, schema: StructType) -> str:
        """The schema by which Hive reads files, also those that lack a column."""
        sql = self._jvm.org.apache.spark.sql
        nullable = sql.types.DataType.fromJson(schema.json()).asNullable()
        text = sql.avro.SchemaConverters.toAvroType(nullable, False, "topLevelRecord", "").toString()
        return json.dumps(_default_to_null(json.loads(str(text))), ensure_ascii=False)


def _default_to_null(schema: Any) -> Any:
    """An Avro schema in which fields that may be null are so where a file has none."""
    if isinstance(schema, list):
        return sorted(map(_default_to_null, schema), key=lambda member: member != "null")
    if not isinstance(schema, dict):
        return schema
    made = {key: _default_to_null(value) for key, value in schema.items()}
    if "name" in made and isinstance(made.get("type"), list):
        made["default"] = None
    return made
