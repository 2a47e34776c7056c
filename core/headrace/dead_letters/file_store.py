"""Dead letters in files of the checkpoint: ``<batch>/<table>[+<replay>]/``."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.dead_letters.rows import ReplayRun, first_seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.dead_letters.table_store import DeadLetterTable
    from headrace.spark.storage import Folder

#: The name by which ``headrace show`` reads them.
TABLE = "dead_letters"


def save(dead_letters: DataFrame, folder: Folder, batch: int, table: str, replay: ReplayRun | None = None) -> None:
    """Replaces those of a batch and a table, or of a replay. What comes again was first seen then."""
    from pyspark.sql import functions as F

    name = f"{batch:010d}/{quote(table, safe='')}" + (f"+{replay.name}" if replay else "")
    if folder.is_complete(name):
        older = dead_letters.sparkSession.read.load(f"{folder.path}/{name}")
        if (seen := first_seen(older)) is not None:
            dead_letters = dead_letters.withColumn("seen", F.timestamp_micros(F.lit(seen)))
    dead_letters.coalesce(1).write.mode("overwrite").save(f"{folder.path}/{name}")
    folder.mark_complete(name)


def read(spark: SparkSession, folder: Folder, table: DeadLetterTable | None) -> DataFrame | None:
    """All dead letters, those in files and those in a table; None when there are none."""
    batches = [f"{folder.path}/{name}/*" for name in folder.names()]
    parts = [spark.read.option("mergeSchema", "true").load(batches)] if batches else []
    in_table = table.read(spark) if table else None
    if in_table is not None and not in_table.isEmpty():
        parts.append(in_table)
    if not parts:
        return None
    whole = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    return whole.orderBy("batch", "topic", "partition", "offset")
