"""Dead letters as rows: records that could not become a change or a row, with their bytes, location and reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk.changes import (
    DETAIL,
    ERROR,
    FILE,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    PLACE,
    RAW,
    RAW_KEY,
    TIMESTAMP,
    TOPIC,
    Changes,
)
from headrace.sdk.reject_reason import UNREADABLE, RejectReason
from headrace.spark.columns import has_any_field, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: boolean column: whether key and value contain the output of the transforms. Dead letters of older releases lack it.
MASKED = "masked"
_HEADERS = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True)
class ReplayRun:
    """Replay of dead letters: a unique name, and when the first one was seen, in microseconds since 1970."""

    name: str
    seen: int | None


@dataclass(frozen=True)
class DeadLetterBatch:
    """One table's part of a batch whose dead letters are saved.

    ``origin``: the checkpoint's id, and the replay's name in a replay; ``mark`` and ``digest``: identify the write in a sink.
    """

    batch: int
    table: str
    origin: str
    mark: str
    replay: ReplayRun | None = None
    digest: str = ""


def dead_letter_rows(
    changes: Changes,
    *,
    batch: int,
    table: str,
    hide: bool,
    plugins: Mapping[str, str],
    without: Collection[str] = (),
    replay: ReplayRun | None = None,
) -> DataFrame:
    """Return the rejected changes of a batch and a table as rows.

    ``hide``: keep the transformed event and set MASKED, except for records that could not be decoded at all: only those still have
    their bytes (``ChangeReader.read_changes``, ``every_field``); ``plugins``: reason → the plugin that rejects for it, with an
    empty string for all other reasons; ``without``: reasons to leave out.
    """
    from pyspark.sql import functions as F

    reason, is_rejected = F.col(ERROR), F.col(ERROR).isNotNull() & ~F.coalesce(F.col(ERROR), F.lit("")).isin(*without)
    offset = F.when(F.col(FILE).isNull(), F.col(OFFSET)).otherwise(number_in_file(OFFSET, FILE, PLACE))
    event = F.to_json(F.struct(*[F.col(quote_name(c)) for c in changes.event_columns])).cast("binary")
    raw, raw_key = F.col(RAW), _column_or_null(changes.frame, RAW_KEY, "binary")
    has_masked_value = F.lit(hide) & (~reason.isin(*UNREADABLE) | (raw.isNull() & raw_key.isNull()))
    # The value of a record may be undecodable although its key was decoded and contains masked columns.
    is_masked = has_masked_value | (F.lit(hide) & raw_key.isNull() & has_any_field(changes.frame, KEY))
    key = F.to_json(KEY).cast("binary") if changes.key_columns else F.lit(None)
    headers = _column_or_null(changes.frame, HEADERS, _HEADERS)
    return (
        _without_values(changes.frame, is_rejected)
        .where(is_rejected | F.col(FILE).isNotNull())  # Accepted records without a file do not have to be counted.
        .withColumn(OFFSET, offset)
        .where(is_rejected)
        .select(
            reason.alias("reason"),
            _explain(changes, reason).alias("error"),
            _text_for(reason, plugins).alias("plugin"),
            F.lit(table).alias("table"),
            F.col(TOPIC).alias("topic"),
            F.col(PARTITION).alias("partition"),
            F.col(OFFSET).alias("offset"),
            F.col(FILE).alias("file"),
            F.when(is_masked, key).otherwise(raw_key).alias("key"),
            F.when(has_masked_value, event).otherwise(raw).alias("value"),
            F.when(~is_masked, headers).alias("headers"),
            _column_or_null(changes.frame, TIMESTAMP, "timestamp").alias("timestamp"),
            F.lit(batch).cast("bigint").alias("batch"),
            (F.timestamp_micros(F.lit(replay.seen)) if replay else F.current_timestamp()).alias("seen"),
            is_masked.alias(MASKED),
        )
    )


def _explain(changes: Changes, reason: Column) -> Column:
    """Return the description of the error: of the field that caused it, if that is known, or of the reason."""
    from pyspark.sql import functions as F

    key = F.col(KEY)
    missing = [
        F.when(key.isNull() | key.getField(name).isNull(), F.lit(f"the key column {quote_name(name)} is null"))
        for name in changes.key_columns
    ]
    is_missing = reason == F.lit(str(RejectReason.KEY_MISSING))
    return F.coalesce(
        F.when(is_missing, F.coalesce(*missing)) if missing else F.lit(None),
        F.when(
            reason.isin(*UNREADABLE, RejectReason.UNTRANSFORMABLE), _column_or_null(changes.frame, DETAIL, "string")
        ),
        _text_for(reason, {known: known.meaning for known in RejectReason}),
    )


def _without_values(frame: DataFrame, is_rejected: Column) -> DataFrame:
    """Null the values of accepted records.

    All records are shuffled to count them, but of accepted records only the locations are needed.
    """
    from pyspark.sql import functions as F

    places = (FILE, PLACE, OFFSET)
    others = [name for name in frame.columns if name not in places]
    return frame.select(*places, *[F.when(is_rejected, F.col(quote_name(name))).alias(name) for name in others])


def with_masked(dead_letters: DataFrame, *, hides: bool) -> DataFrame:
    """Return dead letters with a complete MASKED column. ``hides``: whether the pipeline that keeps them masks values."""
    from pyspark.sql import functions as F

    known = F.col(MASKED) if MASKED in dead_letters.columns else F.lit(None)
    return dead_letters.withColumn(MASKED, F.coalesce(known, F.lit(hides) & ~F.col("reason").isin(*UNREADABLE)))


def number_in_file(offset: str, file: str, place: str) -> Column:
    """Return the number by which a dead letter identifies a record in a file."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col(offset), F.lit(0)) + records_before(file, place)


def records_before(file: str, place: str) -> Column:
    """Return the number of records before one in its file. A record's own offset counts within its location only."""
    from pyspark.sql import Window, functions as F

    # Several changes of one record have the same location.
    return F.dense_rank().over(Window.partitionBy(file).orderBy(place)) - 1


def keep_numbers(frame: DataFrame, offset: str, file: str, place: str) -> DataFrame:
    """Return some records of files such that ``number_in_file`` still returns ``offset``, their number among all records."""
    from pyspark.sql import functions as F

    return frame.withColumn(offset, F.col(offset) - records_before(file, place))


def first_seen(dead_letters: DataFrame) -> int | None:
    """Return the time at which the first dead letter was seen, in microseconds since 1970; None if there are none."""
    from pyspark.sql import functions as F

    ((first,),) = dead_letters.agg(F.min(F.unix_micros("seen"))).collect()
    return None if first is None else int(first)


def _column_or_null(frame: DataFrame, name: str, data_type: str) -> Column:
    """Return a column of the records; null if the transport has none."""
    from pyspark.sql import functions as F

    return F.col(name) if name in frame.columns else F.lit(None).cast(data_type)


def _text_for(reason: Column, texts: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F

    text = F.lit(texts.get("")).cast("string")
    for known, meaning in texts.items():
        text = F.when(reason == F.lit(str(known)), meaning).otherwise(text)
    return text
