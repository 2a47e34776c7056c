"""Files of rows: every batch a folder of its own, named after the batch, so that writing it again replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from headrace.contracts.changes import DELETED, POSITION
from headrace.contracts.sink import Batch, Capabilities, Sink, SinkConfig, Table, Written
from headrace.engine.storage import Folder
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITION = "_headrace_batch"


class FilesSinkConfig(SinkConfig):
    """Files on any filesystem that Hadoop knows; options of Spark's writer pass through."""

    passthrough: ClassVar[tuple[str, ...]] = ("compression", "maxRecordsPerFile", "dateFormat", "timestampFormat", "ignoreNullFields", "encoding")

    #: The folder in which every table has one.
    path: str
    format: Literal["json", "avro", "parquet"] = "json"


class FilesSink(Sink):
    """``files: {path: out/, format: json}``."""

    name = "files"
    api_version = 1
    Config = FilesSinkConfig
    config: FilesSinkConfig
    capabilities = Capabilities(schema_evolution=True, exactly_once=True)
    jars = {
        "3.5": ("org.apache.spark:spark-avro_2.12:3.5.7",),
        "4.0": ("org.apache.spark:spark-avro_2.13:4.0.0",),
    }

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> Written:
        name = f"{batch.pipeline[:8]}-{batch.id:010d}"
        writer = rows.drop(DELETED, POSITION).write.format(self.config.format).options(**self.config.options())
        writer.mode("overwrite").save(f"{self._folder(table)}/{_PARTITION}={name}")
        return Written(version=name)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        if not Folder(spark, self._folder(table)).exists():
            raise ConfigError(f"there is no table {table.name!r}", where=f"sink files, path {self.config.path}", fix="run the pipeline, or correct the name")
        reader = spark.read.format(self.config.format)
        return (reader.option("mergeSchema", "true") if self.config.format == "parquet" else reader).load(self._folder(table))

    def _folder(self, table: Table) -> str:
        return "/".join([self.config.path.rstrip("/"), *table.parts])
