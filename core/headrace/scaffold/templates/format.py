"""Format of records with comma-separated values; the pipeline file names the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import Config, Format, RecordReader, RejectReason, SchemaLog, Subject, hookimpl
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class ExampleConfig(Config):
    """Content of the records."""

    columns: str
    """Names and types in SQL syntax: ``id int, name string``."""


class ExampleReader(RecordReader):
    """Reader of the records of one topic in a batch."""

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


class Example(Format):
    """``value: {example: {columns: "id int, name string"}}``, next to the source."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        return ExampleReader(spark.createDataFrame([], self.config.columns).schema)


@hookimpl
def headrace_formats() -> dict[str, type[Format]]:
    """Return the formats by the name used under ``value:``, ``key:`` and ``format:``."""
    return {"example": Example}
