"""Rows of the source ``jdbc``: the row, and details about its change."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.sdk import Changes, Dialect, changes as C, events as E
from headrace.sdk.events import record_columns
from headrace.sdk.positions import OFFSET_ORDER, position
from headrace_sources.dialects.record_columns import find_key_columns, record_key_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.sdk import Events

#: Fields of an event: the row, and a struct of ``changed_ms`` and ``deleted``.
ROW, DETAILS = "row", "__jdbc_details"


class JdbcDialect(Dialect):
    """Rows as they were when they were read. The place of a row, which orders its changes, begins with the cursor."""

    name = "jdbc"
    api_version = 1
    priority = 10
    row_fields = (ROW,)

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return set(schema.names) == {ROW, DETAILS}

    def order(self, events: Events) -> str:
        return OFFSET_ORDER

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        details = F.col(E.VALUE).getField(DETAILS)
        row, deleted = F.col(E.VALUE).getField(ROW), details.getField("deleted")
        names = events.schema[ROW].dataType.names  # type: ignore[attr-defined]
        cells = {name: row.getField(name).alias(name) for name in names}
        own = find_key_columns(events.topic, frame, key, names) or record_key_names(frame)
        return Changes(
            frame.select(
                *cells.values(),
                F.when(deleted, "d").otherwise("u").alias(C.OP),
                deleted.alias(C.DELETED),
                *([F.struct(*[cells[name] for name in own]).alias(C.KEY)] if own else []),
                position(place=F.col(E.PLACE)).alias(C.POSITION),
                details.getField("changed_ms").alias(C.COMMITTED),
                F.col(E.ERROR).alias(C.ERROR),
                *record_columns(events.topic, frame),
            ),
            envelope=False,
        )
