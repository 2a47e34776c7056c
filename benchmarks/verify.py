"""Comparison of every cell of a run's final table with the truth, read with the reader of the table format."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.make_bronze import ARTWORKS
from benchmarks.results import Check
from benchmarks.run import KEY, SPARK, Run
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

from moma_bronze.table import TEXT_ARRAY

_TYPES: dict[str, DataType] = {"string": StringType(), "long": LongType()}
SCHEMA = StructType(
    [
        StructField(column.name, ArrayType(StringType()) if column.type == TEXT_ARRAY else _TYPES[column.type])
        for column in ARTWORKS.columns
    ]
)


def session(jars: Sequence[Path]) -> SparkSession:
    """Return a session that reads all formats."""
    conf: dict[str, Any] = {
        **SPARK,
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    spark = SparkSession.builder.appName("verify").config(map=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def verify(spark: SparkSession, run: Run, truth: Path) -> Check:
    """Compare a run's table with the truth's rows."""
    want = spark.read.schema(SCHEMA).json(str(truth))
    marks = {"metadata": "iceberg", "_delta_log": "delta", ".hoodie": "hudi"}
    kind = next(kind for folder, kind in marks.items() if (run.table / folder).is_dir())
    table = spark.read.format(kind).load(str(run.table))
    for field in SCHEMA:
        if field.name not in table.columns:
            table = table.withColumn(field.name, F.lit(None).cast(field.dataType))
    pairs = want.alias("want").join(table.alias("have"), F.col(f"want.{KEY}") == F.col(f"have.{KEY}"), "full_outer")
    differs = [
        F.count_if(~F.col(f"want.{name}").eqNullSafe(F.col(f"have.{name}"))).alias(name) for name in SCHEMA.names
    ]
    counts = pairs.agg(*differs).collect()[0].asDict()
    files = [file for file in run.table.rglob("*") if file.is_file()]
    return Check(
        run.variant,
        run.round,
        rows=table.count(),
        wanted_rows=want.count(),
        files=len(files),
        mib=round(sum(file.stat().st_size for file in files) / 2**20, 1),
        wrong={name: count for name, count in counts.items() if count},
    )
