"""Records that could not become a change or a row: kept with their bytes, place and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.contracts.changes import ERROR, FILE, OFFSET, PARTITION, PLACE, RAW, TOPIC, UNDECODABLE, Changes, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.storage import Folder

#: The name by which ``headrace show`` reads them.
TABLE = "dead_letters"


def write(changes: Changes, folder: str, *, batch: int, table: str, hide: bool) -> None:
    """Replaces the dead letters of this batch and table.

    ``hide``: keep the transformed event instead of the bytes it came as, wherever these could be decoded.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # A file's records know the first offset in their file: their own is as many on as there are records before.
    before = F.row_number().over(Window.partitionBy(FILE).orderBy(PLACE)) - 1
    offset = F.when(F.col(FILE).isNull(), F.col(OFFSET)).otherwise(F.coalesce(F.col(OFFSET), F.lit(0)) + before)
    event = F.to_json(F.struct(*[F.col(quoted(c)) for c in changes.event_columns])).cast("binary")
    letters = (
        changes.frame.where(F.col(ERROR).isNotNull() | F.col(FILE).isNotNull())  # the others need not be counted
        .withColumn(OFFSET, offset)
        .where(F.col(ERROR).isNotNull())
        .select(
            F.col(ERROR).alias("reason"),
            F.lit(table).alias("table"),
            F.col(TOPIC).alias("topic"),
            F.col(PARTITION).alias("partition"),
            F.col(OFFSET).alias("offset"),
            F.col(FILE).alias("file"),
            F.when((F.col(ERROR) != UNDECODABLE) & F.lit(hide), event).otherwise(F.col(RAW)).alias("value"),
            F.lit(batch).cast("bigint").alias("batch"),
            F.current_timestamp().alias("seen"),
        )
    )
    letters.coalesce(1).write.mode("overwrite").save(f"{folder}/{batch:010d}/{quote(table, safe='')}")


def read(spark: SparkSession, folder: Folder) -> DataFrame | None:
    """All dead letters; None when there are none."""
    batches = [f"{folder.path}/{name}/*" for name in folder.names()]
    if not batches:
        return None
    return spark.read.load(batches).orderBy("batch", "topic", "partition", "offset")
