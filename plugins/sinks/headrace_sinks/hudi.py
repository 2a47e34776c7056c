"""Hudi tables: upsert by record key, ordered by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from headrace.contracts.changes import DELETED, POSITION, PREFIX
from headrace.contracts.sink import Batch, Capabilities, Sink, SinkConfig, Table, Written
from headrace.engine.storage import Folder, qualified
from headrace.errors import ConfigError, HeadraceError, RetriableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IS_DELETED = "_hoodie_is_deleted"


class HudiConfig(SinkConfig):
    """Hudi tables; options of Hudi's (``hoodie.…``) pass through under their own names and win over headrace's."""

    passthrough: ClassVar[tuple[str, ...]] = ("hoodie.*",)

    #: The folder in which every table has one.
    path: str
    table_type: Literal["MERGE_ON_READ", "COPY_ON_WRITE"] = Field("MERGE_ON_READ", alias="table.type")


class HudiSink(Sink):
    """``hudi: {path: lake/, table.type: MERGE_ON_READ}``."""

    name = "hudi"
    api_version = 1
    Config = HudiConfig
    config: HudiConfig
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, time_travel=True)
    hidden_prefixes = (PREFIX, "_hoodie_")
    jars = {"3.5": ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",)}
    refuses = {"4.0": "no Hudi bundle for Spark 4 is published where jars are resolved from"}
    jvm_class = "org.apache.hudi.DefaultSource"

    def session_conf(self) -> dict[str, str]:
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        }

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> Written:
        path = self._path(rows.sparkSession, table)
        if batch.mode == "upsert":
            rows = rows.withColumnRenamed(DELETED, _IS_DELETED)
        else:
            rows = rows.drop(DELETED)
        rows.write.format("hudi").options(**self._options(table, batch)).mode("append").save(path)
        jvm: Any = rows.sparkSession._jvm  # noqa: SLF001
        files = jvm.org.apache.hadoop.fs.Path(path).getFileSystem(rows.sparkSession._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        return Written(version=str(jvm.org.apache.hudi.HoodieDataSourceHelpers.latestCommit(files, path)))

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        path = self._path(spark, table)
        if not Folder(spark, f"{path}/.hoodie").exists():
            raise ConfigError(f"there is no table {table.name!r}", where=f"sink hudi, path {self.config.path}", fix="run the pipeline, or correct the name")
        reader = spark.read.format("hudi")
        return (reader.option("as.of.instant", as_of) if as_of is not None else reader).load(path)

    def explain(self, error: BaseException) -> HeadraceError | None:
        from headrace.engine.trouble import full_text

        text = full_text(error)
        if "HoodieWriteConflictException" in text or "HoodieLockException" in text:
            return RetriableError("another writer committed to the table at the same time", fix="nothing is lost; start the pipeline again")
        return None

    def _path(self, spark: SparkSession, table: Table) -> str:
        return "/".join([qualified(spark, self.config.path), *table.parts])

    def _options(self, table: Table, batch: Batch) -> dict[str, str]:
        options = {
            "hoodie.table.name": "_".join(table.parts),
            "hoodie.datasource.write.table.type": self.config.table_type,
            "hoodie.datasource.write.operation": "upsert",
            # A position is unique: with it as key, appending a batch again changes nothing.
            "hoodie.datasource.write.recordkey.field": ",".join(table.key) if batch.mode == "upsert" else POSITION,
            "hoodie.table.ordering.fields": POSITION,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            # The batch has one row per key already.
            "hoodie.combine.before.upsert": "false",
            "hoodie.write.set.null.for.missing.columns": "true",
            # docs/decisions: a bucket finds a key without reading, and small commits need no metadata table.
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.metadata.enable": "false",
        }
        own = self.config.options()
        if "hoodie.datasource.write.partitionpath.field" in own:
            options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen.ComplexKeyGenerator"
        return {**options, **own}
