"""Formats that each break one requirement, and the kit test that must detect it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kit_run import Broken, fails

from headrace.scaffold.templates.format import Example, ExampleReader
from headrace.sdk.format import RecordReader
from headrace.testing.formats import FormatConformance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BROKEN: Broken = {}


class Csv(Example):
    """Correct format of the template; the others change the result of its reader."""

    def open(self, spark: SparkSession, frame: DataFrame, *rest: Any) -> RecordReader:
        return _Reader(super().open(spark, frame, *rest).schema, self, frame)

    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        """Change a decoded frame; the defect of the reader."""
        return frame

    def change_schema(self, schema: StructType, frame: DataFrame) -> StructType:
        """Change the schema of a batch that the reader reports."""
        return schema


class _Reader(ExampleReader):
    def __init__(self, schema: StructType, plugin: Csv, frame: DataFrame) -> None:
        super().__init__(schema)
        self.schema, self._plugin = plugin.change_schema(schema, frame), plugin

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        return self._plugin.change(super().decode(frame, column, schema, error), column, error)


class CsvKit(FormatConformance):
    plugin_class = Csv
    golden = (
        (b'1,"Arp, Hans"', {"id": 1, "name": "Arp, Hans"}),
        (b"2,", {"id": 2, "name": None}),
        ("3,žlutý kůň".encode(), {"id": 3, "name": "žlutý kůň"}),
    )
    malformed = (b"no number,Klee", b"x,")

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"columns": "id int, name string"}


ROWS, DEAD = "test_records_become_rows", "test_undecodable_record_becomes_one_dead_letter"
ANY_BATCH = "test_record_decodes_the_same_in_any_batch"


@fails(BROKEN, ROWS)
class ReturnsWrongValues(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        if "name" not in _list_fields(frame, column):
            return frame
        other = F.col(column).withField("name", F.lit("Arp"))
        return frame.withColumn(column, F.when(F.col(column).isNotNull(), other))


@fails(BROKEN, ANY_BATCH)
class TreatsFirstRecordAsHeader(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        if "id" not in _list_fields(frame, column):
            return frame
        is_first = (F.col("offset") == 0) & (F.col(f"{column}.id") != 1)
        return frame.withColumn(column, F.when(~is_first, F.col(column)))


@fails(BROKEN, DEAD)
class DropsUndecodableRecords(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        return frame.where(f"{error} IS NULL")


@fails(BROKEN, DEAD)
class HidesItsErrors(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(error, F.lit(None).cast("string"))


@fails(BROKEN, DEAD, "test_schema_is_kept_after_a_batch_without_rows")
class FailsTheBatch(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(error, F.when(F.col(error).isNotNull(), F.raise_error(F.col(error))).cast("string"))


@fails(BROKEN, DEAD)
class ChangesTheRawBytes(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn("raw", F.when(F.col(error).isNull(), F.col("raw")).otherwise(F.lit(b"?")))


@fails(BROKEN, "test_tombstone_yields_neither_row_nor_error")
class TurnsTombstonesIntoRows(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        empty = F.from_json(F.lit("{}"), frame.schema[column].dataType.simpleString())
        return frame.withColumn(column, F.when(F.col("raw").isNull(), empty).otherwise(F.col(column)))


@fails(BROKEN, "test_tombstone_yields_neither_row_nor_error")
class TreatsTombstonesAsErrors(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(error, F.when(F.col("raw").isNull(), "empty").otherwise(F.col(error)))


@fails(BROKEN, "test_unrequested_columns_are_not_decoded")
class DecodesUnrequestedColumns(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        if len(_list_fields(frame, column)) > 1:
            return frame
        more = F.col(column).withField("id", F.lit(1))
        return frame.withColumn(column, F.when(F.col(column).isNotNull(), more))


@fails(BROKEN, "test_schema_is_kept_after_a_batch_without_rows")
class ForgetsItsSchema(Csv):
    def change_schema(self, schema: StructType, frame: DataFrame) -> StructType:
        from pyspark.sql.types import StructType

        lacks_all = frame.where("value LIKE '%,%' AND NOT (value LIKE 'no%' OR value LIKE 'x%')").isEmpty()
        return StructType([schema["id"]]) if lacks_all else schema


@fails(BROKEN, "test_plan_runs_no_python")
class RunsPythonForEachRecord(Csv):
    def change(self, frame: DataFrame, column: str, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(error, F.udf(lambda text: text)(error))


def _list_fields(frame: DataFrame, column: str) -> list[str]:
    return frame.select(f"{column}.*").columns
