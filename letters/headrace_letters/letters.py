"""Records that could not become a change or a row: kept with their bytes, place and reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.contracts.changes import (
    ERROR,
    FILE,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    PLACE,
    RAW,
    RAW_KEY,
    TOPIC,
    Changes,
    quoted,
)
from headrace.contracts.reason import UNREAD, Reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.engine.storage import Folder

#: The name by which ``headrace show`` reads them.
TABLE = "dead_letters"
_HEADERS = "array<struct<key: string, value: binary>>"


def write(
    changes: Changes,
    folder: str,
    *,
    batch: int,
    table: str,
    hide: bool,
    plugins: Mapping[str, str],
    without: Collection[str] = (),
) -> None:
    """Replaces the dead letters of this batch and table.

    ``hide``: keep the transformed event instead of the bytes it came as, wherever these could be decoded; ``plugins``: reason →
    who found it, and who finds all others under an empty text; ``without``: reasons to leave out.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    reason, wrong = F.col(ERROR), F.col(ERROR).isNotNull() & ~F.coalesce(F.col(ERROR), F.lit("")).isin(*without)
    # A file's records know the first offset in their file: their own is as many on as there are records before.
    before = F.row_number().over(Window.partitionBy(FILE).orderBy(PLACE)) - 1
    offset = F.when(F.col(FILE).isNull(), F.col(OFFSET)).otherwise(F.coalesce(F.col(OFFSET), F.lit(0)) + before)
    event = F.to_json(F.struct(*[F.col(quoted(c)) for c in changes.event_columns])).cast("binary")
    hidden = ~reason.isin(*UNREAD) & F.lit(hide)
    key = F.to_json(KEY).cast("binary") if changes.key_columns else F.lit(None)
    headers = _own(changes.frame, HEADERS, _HEADERS)
    letters = (
        changes.frame.where(wrong | F.col(FILE).isNotNull())  # the others need not be counted
        .withColumn(OFFSET, offset)
        .where(wrong)
        .select(
            reason.alias("reason"),
            _chosen(reason, {known: known.meaning for known in Reason}).alias("error"),
            _chosen(reason, plugins).alias("plugin"),
            F.lit(table).alias("table"),
            F.col(TOPIC).alias("topic"),
            F.col(PARTITION).alias("partition"),
            F.col(OFFSET).alias("offset"),
            F.col(FILE).alias("file"),
            F.when(hidden, key).otherwise(_own(changes.frame, RAW_KEY, "binary")).alias("key"),
            F.when(hidden, event).otherwise(F.col(RAW)).alias("value"),
            F.when(~hidden, headers).alias("headers"),
            F.lit(batch).cast("bigint").alias("batch"),
            F.current_timestamp().alias("seen"),
        )
    )
    letters.coalesce(1).write.mode("overwrite").save(f"{folder}/{batch:010d}/{quote(table, safe='')}")


def there_are(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a pipeline has dead letters."""
    from headrace.engine.storage import Folder

    return bool(Folder(spark, checkpoint).folder(TABLE).names())


def read(spark: SparkSession, folder: Folder) -> DataFrame | None:
    """All dead letters; None when there are none."""
    batches = [f"{folder.path}/{name}/*" for name in folder.names()]
    if not batches:
        return None
    return spark.read.option("mergeSchema", "true").load(batches).orderBy("batch", "topic", "partition", "offset")


def _own(frame: DataFrame, name: str, kind: str) -> Column:
    """A column of the records', null where the transport has none."""
    from pyspark.sql import functions as F

    return F.col(name) if name in frame.columns else F.lit(None).cast(kind)


def _chosen(reason: Column, texts: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F

    found = F.lit(texts.get("")).cast("string")
    for known, text in texts.items():
        found = F.when(reason == F.lit(str(known)), text).otherwise(found)
    return found
