"""Format whose registry can be made unreachable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace import RetriableError
from headrace.sdk.format import RecordReader
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class UnreachableFormat(JsonFormat):
    """Format whose registry is down while a file exists, for all topics or for the topic that the file names."""

    def __init__(self, down: Path) -> None:
        super().__init__()
        self.down = down

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        if self.down.exists() and self.down.read_text() in ("", subject.topic):
            raise RetriableError("the registry is down")
        return super().open(spark, frame, column, subject, log)
