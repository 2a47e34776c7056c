"""Iceberg tables: MERGE by position, one commit per batch, the batch's mark in the snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.contracts.changes import DELETED, POSITION, quoted
from headrace.contracts.sink import Batch, Capabilities, Sink, SinkConfig, Table, Written
from headrace.engine.storage import Folder, qualified
from headrace.errors import ConfigError, DataError, HeadraceError, RetriableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: The snapshot property that names the batch. Kept in every snapshot that headrace commits.
MARK = "headrace.batch"
#: Snapshots that are searched for a mark: other writers and maintenance commit in between.
MARK_DEPTH = 50
_PRIVATE_CATALOG = "headrace_iceberg"
_CONFLICTS = ("ValidationException", "CommitFailedException", "CommitStateUnknownException")


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
    #: How rows are replaced: merge-on-read writes less, copy-on-write reads faster.
    table_type: Literal["merge-on-read", "copy-on-write"] = Field("merge-on-read", alias="table.type")

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
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, exactly_once=True, time_travel=True, single_pass=True)
    jars = {
        "3.5": ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",),
        "4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
    }
    jvm_class = "org.apache.iceberg.spark.SparkCatalog"

    def session_conf(self) -> dict[str, str]:
        if self.config.catalog is None:
            return {}
        prefix = f"spark.sql.catalog.{self.config.catalog}"
        return {prefix: self.jvm_class, **{f"{prefix}.{key}": value for key, value in self.config.catalog_properties.items()}}

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> Written:
        spark = rows.sparkSession
        name = self._name(spark, table)
        mark = f"{batch.pipeline}:{batch.id}"
        java = self._load(spark, name)
        if java is not None and mark in _marks(java):
            return Written(version=str(java.currentSnapshot().snapshotId()), skipped=True)
        if java is None:
            self._create_namespace(spark, name)
            _marked(spark, mark, lambda: self._create(name, rows, batch))
        else:
            fitted = _fitted(spark, name, java, rows)
            if batch.mode == "upsert":
                _marked(spark, mark, lambda: self._merge(spark, name, table, fitted))
            else:
                _marked(spark, mark, lambda: fitted.drop(DELETED).writeTo(name).append())
        return self._written(self._load(spark, name), batch)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        reader = spark.read.format("iceberg")
        if as_of is not None:
            if as_of.isdigit() and len(as_of) > 8:
                reader = reader.option("snapshot-id", as_of)
            else:
                reader = reader.option("as-of-timestamp", str(_millis(spark, as_of)))
        if self.config.warehouse is None:
            return reader.load(f"{self.config.catalog}." + ".".join(table.parts))
        path = "/".join([qualified(spark, self.config.warehouse), *table.parts])
        if not Folder(spark, f"{path}/metadata").exists():
            raise ConfigError(f"there is no table {table.name!r}", where=f"sink iceberg, warehouse {self.config.warehouse}", fix="run the pipeline, or correct the name")
        return reader.load(path)

    def explain(self, error: BaseException) -> HeadraceError | None:
        from headrace.engine.trouble import full_text

        text = full_text(error)
        conflict = next((line.strip() for line in text.splitlines() if any(f"iceberg.exceptions.{name}" in line for name in _CONFLICTS)), None)
        if conflict:
            return RetriableError(f"another writer committed at the same time: {conflict}", fix="nothing is lost; start the pipeline again")
        if "Cannot find snapshot" in text or "Cannot find a snapshot" in text:
            line = next(line for line in text.splitlines() if "Cannot find" in line)
            return ConfigError(f"there is no such version: {line.strip()}", fix="take a version from `headrace show`, or a later time")
        return None

    def _name(self, spark: SparkSession, table: Table) -> str:
        if self.config.warehouse is not None:
            # The session is headrace's own clone: a catalog set here is seen nowhere else.
            prefix = f"spark.sql.catalog.{_PRIVATE_CATALOG}"
            conf = {prefix: str(self.jvm_class), f"{prefix}.type": "hadoop", f"{prefix}.warehouse": qualified(spark, self.config.warehouse), f"{prefix}.cache-enabled": "false"}
            for key, value in conf.items():
                spark.conf.set(key, value)
        catalog = self.config.catalog or _PRIVATE_CATALOG
        return ".".join([quoted(catalog), *(quoted(part) for part in table.parts)])

    def _load(self, spark: SparkSession, name: str) -> Any:
        """Iceberg's own table object; None when there is none."""
        if not spark._jsparkSession.catalog().tableExists(name):  # noqa: SLF001
            return None
        jvm: Any = spark._jvm  # noqa: SLF001
        java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001
        java.refresh()
        return java

    @staticmethod
    def _create_namespace(spark: SparkSession, name: str) -> None:
        namespace, _, _ = name.rpartition(".")
        if "." in namespace:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")

    def _create(self, name: str, rows: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as F

        if batch.mode == "upsert":
            rows = rows.where(~F.col(DELETED))
        writer = rows.drop(DELETED).writeTo(name).using("iceberg")
        properties = {"format-version": "2", **{f"write.{action}.mode": self.config.table_type for action in ("merge", "update", "delete")}}
        for key, value in {**properties, **self.config.options()}.items():
            writer = writer.tableProperty(key, value)
        writer.create()

    def _merge(self, spark: SparkSession, name: str, table: Table, rows: DataFrame) -> None:
        view = f"_headrace_rows_{abs(hash(name)):x}"
        rows.createOrReplaceTempView(view)
        columns = [quoted(c) for c in rows.columns if c != DELETED]
        same = " AND ".join(f"t.{quoted(k)} = s.{quoted(k)}" for k in table.key)
        newer = f"(t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION})"
        try:
            spark.sql(
                f"MERGE INTO {name} t USING {view} s ON {same} "
                f"WHEN MATCHED AND s.{DELETED} AND {newer} THEN DELETE "
                f"WHEN MATCHED AND NOT s.{DELETED} AND {newer} THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in columns)} "
                f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(f's.{c}' for c in columns)})"
            )
        finally:
            spark.catalog.dropTempView(view)

    def _written(self, java: Any, batch: Batch) -> Written:
        snapshot = java.currentSnapshot()
        if snapshot is None:
            return Written(upserted=0)
        summary = snapshot.summary()
        added = int(summary.get("added-records") or 0)
        # Copy-on-write copies the rows beside those that changed: its numbers do not tell one from the other.
        copies = batch.mode == "upsert" and snapshot.parentId() is not None and java.properties().get("write.merge.mode") != "merge-on-read"
        return Written(upserted=None if copies else added, bytes=int(summary.get("added-files-size") or 0), version=str(snapshot.snapshotId()))


def _fitted(spark: SparkSession, name: str, java: Any, rows: DataFrame) -> DataFrame:
    """The table grown by the rows' new columns, and the rows with all of the table's columns in its types."""
    from pyspark.sql import functions as F

    have: StructType = spark.table(name).schema
    types = {field.name: field.dataType for field in have}
    jschema = rows._jdf.schema()  # noqa: SLF001
    new = [c for c in rows.columns if c not in types and c != DELETED]
    if new:
        columns = ", ".join(f"{quoted(c)} {jschema.apply(c).dataType().sql()}" for c in new)
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({columns})")
    cells = []
    for field in rows.schema:
        if field.name in types and types[field.name] != field.dataType and not _upcast(field.dataType, types[field.name]):
            raise DataError(
                f"column {field.name!r} comes as {field.dataType.simpleString()} and the table has {types[field.name].simpleString()}",
                fix="change the table's type, or cast the column where the events are made",
            )
        cells.append(F.col(quoted(field.name)).cast(types.get(field.name, field.dataType)).alias(field.name))
    absent = [F.lit(None).cast(kind).alias(c) for c, kind in types.items() if c not in rows.columns]
    return rows.select(*cells, *absent)


def _upcast(narrow: Any, wide: Any) -> bool:
    from headrace.engine.schemas import merged

    try:
        return _loose(merged(narrow, wide, "column")) == _loose(wide)
    except DataError:
        return False


def _loose(kind: Any) -> str:
    """A type without nullability, which tables and batches spell differently."""
    return str(kind.simpleString())


def _marked(spark: SparkSession, mark: str, work: Callable[[], None]) -> None:
    """Runs ``work`` so that every snapshot it commits carries the mark.

    Spark 3.5 has no setting for it: Iceberg takes the properties from the thread that commits, inside this call.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)
    jvm: Any = spark._jvm  # noqa: SLF001
    raised: list[BaseException] = []

    class Call:
        def call(self) -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - a Python error must not cross the JVM; it is raised below
                raised.append(error)

        class Java:
            implements = ["java.util.concurrent.Callable"]  # noqa: RUF012 - py4j reads it

    properties = jvm.java.util.HashMap()
    properties.put(MARK, mark)
    jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(
        properties, Call(), jvm.java.lang.Class.forName("java.lang.RuntimeException")
    )
    if raised:
        raise raised[0]


def _marks(java: Any) -> set[str]:
    """The batches named in the newest snapshots."""
    marks: set[str] = set()
    snapshot, depth = java.currentSnapshot(), 0
    while snapshot is not None and depth < MARK_DEPTH:
        mark = snapshot.summary().get(MARK)
        if mark:
            marks.add(str(mark))
        parent = snapshot.parentId()
        snapshot, depth = (java.snapshot(parent) if parent is not None else None), depth + 1
    return marks


def _millis(spark: SparkSession, timestamp: str) -> int:
    from pyspark.sql import functions as F

    frame = spark.range(1).select(F.unix_millis(F.to_timestamp(F.lit(timestamp))).alias("ms"))
    try:
        row = frame.first()
    except Exception:  # noqa: BLE001 - ANSI mode raises where the other gives null
        row = None
    if row is None or row["ms"] is None:
        raise ConfigError(f"{timestamp!r} is neither a version nor a timestamp", fix='write it like "2015-07-17 12:00:00"')
    return int(row["ms"])
