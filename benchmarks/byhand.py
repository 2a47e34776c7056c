"""Baseline by hand: PySpark that keeps one table equal to folders of Debezium envelopes.

    python -m benchmarks.byhand VARIANT --jars FILE,FILE --bronze FOLDER --folder FOLDER --results FILE

VARIANT: byhand-iceberg-mor, byhand-delta, byhand-hudi-mor-bucket, or byhand-hudi-mor-bucket-nometa without Hudi's metadata table
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.run import KEY, SPARK, STEPS, Run
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

_ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}
_HUDI = {
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_TABLE = "ice.db.artworks"

Apply = Callable[[DataFrame], None]


def session(variant: str, jars: str, lake: Path) -> SparkSession:
    """Build a session for a table format."""
    formats = {"iceberg": {**_ICEBERG, "spark.sql.catalog.ice.warehouse": str(lake)}, "hudi": _HUDI, "delta": _DELTA}
    conf: dict[str, Any] = {
        **SPARK,
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        **formats[variant.split("-")[1]],
    }
    spark = SparkSession.builder.appName(variant).config(map=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def latest(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the newest row per key by LSN: the columns of the row, _lsn and _op."""
    events = spark.read.format("avro").load(str(folder))
    columns = [name for name in events.select("after.*").columns if name != KEY]
    rows = events.where("op in ('r', 'c', 'u', 'd')").select(
        F.coalesce(f"after.{KEY}", f"before.{KEY}").alias(KEY),
        *[f"after.{name}" for name in columns],
        F.col("source.lsn").alias("_lsn"),
        F.col("op").alias("_op"),
    )
    newest_first = Window.partitionBy(KEY).orderBy(F.col("_lsn").desc())
    return rows.withColumn("_n", F.row_number().over(newest_first)).where("_n = 1").drop("_n")


def iceberg(spark: SparkSession) -> Apply:
    """Create on the first step; then add the new columns and merge."""

    def apply(rows: DataFrame) -> None:
        if not spark.catalog.tableExists(_TABLE):
            writer = rows.where("_op <> 'd'").drop("_op").writeTo(_TABLE).tableProperty("format-version", "2")
            for action in ("merge", "update", "delete"):
                writer = writer.tableProperty(f"write.{action}.mode", "merge-on-read")
            writer.create()
            return
        merge(spark, _TABLE, rows)

    return apply


def delta(spark: SparkSession, table: Path) -> Apply:
    """Create a table with deletion vectors on the first step; then add the new columns and merge."""

    def apply(rows: DataFrame) -> None:
        if table.exists():
            merge(spark, f"delta.`{table}`", rows)
            return
        writer = rows.where("_op <> 'd'").drop("_op").write.format("delta")
        writer.option("delta.enableDeletionVectors", "true").save(str(table))

    return apply


def merge(spark: SparkSession, table: str, rows: DataFrame) -> None:
    """Add the new columns and merge."""
    stored = set(spark.table(table).columns)
    fields = rows.drop("_op").schema
    new = [f"`{field.name}` {field.dataType.simpleString()}" for field in fields if field.name not in stored]
    if new:
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(new)})")
    rows.createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO {table} t USING changes s ON t.{KEY} = s.{KEY} "
        "WHEN MATCHED AND s._op = 'd' AND s._lsn >= t._lsn THEN DELETE "
        "WHEN MATCHED AND s._lsn >= t._lsn THEN UPDATE SET * "
        "WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT *"
    )


def hudi(table: Path, *, metadata: bool) -> Apply:
    """Upsert; the writer creates the table and adds columns."""
    options = {
        "hoodie.table.name": "artworks",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": KEY,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.ordering.fields": "_lsn",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.upsert.shuffle.parallelism": "2",
        **({} if metadata else {"hoodie.metadata.enable": "false"}),
    }

    def apply(rows: DataFrame) -> None:
        rows = rows.withColumn("_hoodie_is_deleted", F.col("_op") == "d").drop("_op")
        rows.write.format("hudi").options(**options).mode("append").save(str(table))

    return apply


def main() -> None:
    """Apply the three steps in one session."""
    cli = Run.command_line()
    cli.add_argument("--jars", required=True)
    arguments = cli.parse_args()
    run = Run.from_arguments(arguments)
    spark = session(run.variant, arguments.jars, run.lake)
    run.note_start()
    if "iceberg" in run.variant:
        apply = iceberg(spark)
    elif "delta" in run.variant:
        apply = delta(spark, run.table)
    else:
        apply = hudi(run.table, metadata=not run.variant.endswith("-nometa"))
    for step in STEPS:
        with run.time_step(step):
            apply(latest(spark, run.files("envelope", step)))
    spark.stop()


if __name__ == "__main__":
    main()
