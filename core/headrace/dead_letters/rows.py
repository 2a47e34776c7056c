"""Records that could not become a change or a row: kept with their bytes, place and reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.sdk.changes import ERROR, FILE, HEADERS, KEY, OFFSET, PARTITION, PLACE, RAW, RAW_KEY, TOPIC, Changes
from headrace.sdk.reject_reason import UNREADABLE, RejectReason
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.dead_letters.table_store import LettersTable
    from headrace.spark.storage import Folder

#: The name by which ``headrace show`` reads them.
TABLE = "dead_letters"
_HEADERS = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True)
class Again:
    """Of letters that are replayed: a name that no other replay has, and when they were first seen, in microseconds since 1970."""

    name: str
    seen: int | None


def of(
    changes: Changes,
    *,
    batch: int,
    table: str,
    hide: bool,
    plugins: Mapping[str, str],
    without: Collection[str] = (),
    again: Again | None = None,
) -> DataFrame:
    """The dead letters of a batch and a table.

    ``hide``: keep the transformed event instead of the bytes it came as, wherever these could be decoded; ``plugins``: reason →
    who found it, and who finds all others under an empty text; ``without``: reasons to leave out.
    """
    from pyspark.sql import functions as F

    reason, wrong = F.col(ERROR), F.col(ERROR).isNotNull() & ~F.coalesce(F.col(ERROR), F.lit("")).isin(*without)
    offset = F.when(F.col(FILE).isNull(), F.col(OFFSET)).otherwise(number_in_file(OFFSET, FILE, PLACE))
    event = F.to_json(F.struct(*[F.col(quote_name(c)) for c in changes.event_columns])).cast("binary")
    hidden = ~reason.isin(*UNREADABLE) & F.lit(hide)
    key = F.to_json(KEY).cast("binary") if changes.key_columns else F.lit(None)
    headers = _own(changes.frame, HEADERS, _HEADERS)
    return (
        changes.frame.where(wrong | F.col(FILE).isNotNull())  # the others need not be counted
        .withColumn(OFFSET, offset)
        .where(wrong)
        .select(
            reason.alias("reason"),
            _chosen(reason, {known: known.meaning for known in RejectReason}).alias("error"),
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
            (F.timestamp_micros(F.lit(again.seen)) if again else F.current_timestamp()).alias("seen"),
        )
    )


def number_in_file(offset: str, file: str, place: str) -> Column:
    """By what a dead letter names a file's record."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col(offset), F.lit(0)) + before(file, place)


def before(file: str, place: str) -> Column:
    """How many records are before one in its file: what it knows itself is the offset of the first."""
    from pyspark.sql import Window, functions as F

    return F.row_number().over(Window.partitionBy(file).orderBy(place)) - 1


def save(letters: DataFrame, folder: Folder, batch: int, table: str, again: Again | None = None) -> None:
    """Replaces those of a batch and a table, or of a replay, in the folder of dead letters. What comes again was first seen then."""
    from pyspark.sql import functions as F

    name = f"{batch:010d}/{quote(table, safe='')}" + (f"+{again.name}" if again else "")
    if folder.read(f"{name}/_SUCCESS") is not None:
        older = letters.sparkSession.read.load(f"{folder.path}/{name}")
        if (seen := first_seen(older)) is not None:
            letters = letters.withColumn("seen", F.timestamp_micros(F.lit(seen)))
    letters.coalesce(1).write.mode("overwrite").save(f"{folder.path}/{name}")


def first_seen(letters: DataFrame) -> int | None:
    """When the first of them was, in microseconds since 1970; None when there are none."""
    from pyspark.sql import functions as F

    ((first,),) = letters.agg(F.min(F.unix_micros("seen"))).collect()
    return None if first is None else int(first)


def read(spark: SparkSession, folder: Folder, table: LettersTable | None) -> DataFrame | None:
    """All dead letters, those in files and those in a table; None when there are none."""
    batches = [f"{folder.path}/{name}/*" for name in folder.names()]
    found = [spark.read.option("mergeSchema", "true").load(batches)] if batches else []
    in_table = table.read(spark) if table else None
    if in_table is not None and not in_table.isEmpty():
        found.append(in_table)
    if not found:
        return None
    every = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), found)
    return every.orderBy("batch", "topic", "partition", "offset")


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
