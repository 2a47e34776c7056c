"""Rows of lake tables: the row, and details about its change."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.sdk import Changes, DataError, Dialect, changes as C, events as E
from headrace.sdk.columns import match_names
from headrace.sdk.events import record_columns
from headrace.sdk.options import did_you_mean
from headrace.sdk.positions import position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.sdk import Events

#: Fields of an event: the row, and a struct of ``op`` and ``committed_ms``.
ROW, DETAILS = "row", "__lake_details"


class LakeDialect(Dialect):
    """Rows that a version of a table inserted or removed. The place of a row begins with the time of the version."""

    name = "lake"
    api_version = 1
    priority = 10
    row_fields = (ROW,)

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return set(schema.names) == {ROW, DETAILS}

    def order(self, events: Events) -> str:
        return "the version of the source table"

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        details = F.col(E.VALUE).getField(DETAILS)
        row, op = F.col(E.VALUE).getField(ROW), details.getField("op")
        names = events.schema[ROW].dataType.names  # type: ignore[attr-defined]
        cells = {name: row.getField(name).alias(name) for name in names}
        own = _find_key(events.topic, frame, key, names)
        return Changes(
            frame.select(
                *cells.values(),
                op.alias(C.OP),
                (op == "d").alias(C.DELETED),
                *([F.struct(*[cells[name] for name in own]).alias(C.KEY)] if own else []),
                position(place=F.col(E.PLACE)).alias(C.POSITION),
                details.getField("committed_ms").alias(C.COMMITTED),
                F.col(E.ERROR).alias(C.ERROR),
                *record_columns(events.topic, frame),
            ),
            envelope=False,
        )


def _find_key(topic: str, frame: DataFrame, key: Collection[str], columns: Collection[str]) -> list[str]:
    """Return a rule's key columns as the table spells them, or the table's own key. DataError for a missing column."""
    if not key:
        return list(getattr(frame.schema[E.KEY].dataType, "names", ())) if E.KEY in frame.columns else []
    found = []
    for name in key:
        if not (spellings := match_names(frame.sparkSession, [name], columns)):
            raise DataError(f"no such key column: {name!r}", where=f"topic {topic}", fix=did_you_mean(name, columns))
        found += list(spellings)
    return found
