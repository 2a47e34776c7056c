"""Parquet files; Spark merges the schemas of a batch's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.contracts.format import Format, Scan
from headrace.engine.trouble import full_text
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class ParquetFormat(Format):
    """``format: parquet``."""

    name = "parquet"
    api_version = 1
    container = True

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        try:
            schema = spark.read.options(**options).option("mergeSchema", "true").parquet(*files).schema
        except Exception as error:
            import re

            text = full_text(error)
            bad = re.search(r"(?:footer for file:? |from |file:? )\S*?((?:file|s3a?|hdfs|abfss?|gs):/[^\s;,}]+)", text)
            raise DataError(
                "this is not a whole Parquet file" if bad else f"the Parquet files cannot be read together: {text.splitlines()[0]}",
                where=bad[1] if bad else files[0],
                fix="replace it, or move it out of the folder",
            ) from error
        return [Scan(tuple(files), schema)]

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        return spark.read.schema(schema).options(**options).parquet(*scan.files)
