"""Events that are read again for dead letters, with more fields than the tables need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import events as E
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import has_any_field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.events import Events


def load_for_dead_letters(session: SparkSession, events: Events, schema: StructType, whole: StructType) -> DataFrame:
    """Return the events with the fields ``whole`` and with the errors of the fields ``schema``, which the tables need.

    A record whose other fields do not fit is a row of its table, so it must not become a dead letter as well.
    """
    from pyspark.sql import functions as F

    frame = events.load(session, whole)
    if whole != schema:
        needed = events.load(session, schema)
        errors = needed.where(F.col(E.ERROR).isNotNull()).select(E.PLACE, E.ERROR)
        frame = frame.drop(E.ERROR).join(errors, E.PLACE, "left")
    return events.locate_errors(frame, schema) if events.locate_errors else E.add_detail(frame)


def drop_decoded_bytes(frame: DataFrame) -> DataFrame:
    """Remove bytes, key and headers of records that were decoded at least in part, from an events frame."""
    from pyspark.sql import functions as F

    # A record of an incompatible schema was decoded, even if none of its columns fits.
    error = F.col(E.ERROR)
    is_raw = error.isNotNull() & (error != RejectReason.SCHEMA_INCOMPATIBLE) & ~has_any_field(frame, E.VALUE)
    names = [name for name in (E.RAW, E.RAW_KEY, E.HEADERS) if name in frame.columns]
    return frame.withColumns({name: F.when(is_raw, F.col(name)) for name in names})
