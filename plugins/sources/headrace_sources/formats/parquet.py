"""Parquet files. Spark merges the schemas of a batch's files; if it cannot, each schema is read separately."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import DataError, Format, Scan, Storage
from headrace.sdk.error_text import full_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Spark's messages about a type of a Parquet file that it cannot read.
_UNKNOWN_TYPE = re.compile(
    r"(?:Illegal Parquet type|Parquet type not (?:yet )?supported|Unrecognized Parquet type): ([^\n]+?)\.?$"
    r"|UNSUPPORTED_TIME_TYPE\] The data type (TIME) ",
    re.MULTILINE,
)
_HIVE_IO = "org.apache.hadoop.hive.ql.io.parquet"


class ParquetFormat(Format):
    """``format: parquet``."""

    name = "parquet"
    api_version = 1
    container = True

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        try:
            return [Scan(tuple(files), self._merge_schemas(spark, files, options))]
        except Exception as error:
            if "PATH_NOT_FOUND" in full_text(error):
                raise
        # Some files differ in a type, or are not Parquet files. They are read one by one to find these.
        groups: dict[str, Scan] = {}
        for file in files:
            try:
                schema = self._merge_schemas(spark, [file], options)
            except Exception as error:
                raise _explain(file, full_text(error)) from error
            before = groups.get(schema.json())
            groups[schema.json()] = Scan((*(before.files if before else ()), file), schema)
        return list(groups.values())

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        return spark.read.schema(schema).options(**options).parquet(*scan.files)

    def describe_storage(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> Storage:
        return Storage(
            "parquet",
            f"{_HIVE_IO}.MapredParquetInputFormat",
            f"{_HIVE_IO}.MapredParquetOutputFormat",
            f"{_HIVE_IO}.serde.ParquetHiveSerDe",
        )

    @staticmethod
    def _merge_schemas(spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> StructType:
        return spark.read.options(**options).option("mergeSchema", "true").parquet(*files).schema


def _explain(file: str, error_text: str) -> DataError:
    """Return the error of a file whose schema Spark cannot read."""
    if found := _UNKNOWN_TYPE.search(error_text):
        return DataError(
            f"a column has the Parquet type {found[1] or found[2]}, which Spark cannot read",
            where=file,
            fix="write the file without the column, or with another type: timestamps and times in microseconds as TIMESTAMP(MICROS) "
            "and INT64",
        )
    fix = "replace it, or move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"
    return DataError("not a complete Parquet file", where=file, fix=fix)
