"""Events that are read again for dead letters, with more fields than the tables need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import events as E

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
