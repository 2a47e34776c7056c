"""Records of comma-separated values, whose columns the file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import Config, Format, RecordReader, RejectReason, SchemaLog, Subject
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class OldCsvConfig(Config):
    """What the records hold."""

    columns: str
    """Names and types, as SQL writes them: ``id int, name string``."""


class OldCsvReader(RecordReader):
    """Reads a batch's records of one topic."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        fields = ", ".join(f"{quote_name(field.name)} {field.dataType.simpleString()}" for field in self.schema)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
        parsed = F.from_csv(F.col(column).cast("string"), f"{fields}, _corrupt string", options)
        is_bad = parsed.getField("_corrupt").isNotNull()
        row = F.struct(*[parsed.getField(field.name).alias(field.name) for field in schema])
        value = F.when(F.col(column).isNotNull() & ~is_bad, row)
        return frame.withColumns({column: value, error: F.when(is_bad, RejectReason.UNDECODABLE)})


class OldCsv(Format):
    """``value: {old_csv: {columns: "id int, name string"}}``, beside the source."""

    name = "old_csv"
    api_version = 1
    Config = OldCsvConfig
    config: OldCsvConfig

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        return OldCsvReader(spark.createDataFrame([], self.config.columns).schema)
