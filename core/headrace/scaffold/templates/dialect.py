"""Dialect for events of the shape ``{"action": "insert", "seq": 7, "row": {…}}``."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.sdk import Changes, Dialect, Events, RejectReason, changes as C, events as E, hookimpl
from headrace.sdk.events import record_columns
from headrace.sdk.positions import position, sortable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Example(Dialect):
    """``dialects: {example: {}}``. ``seq`` is the order in which the database made the changes."""

    name = "example"
    api_version = 1
    row_fields = ("row",)

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return {"action", "seq", "row"} <= set(schema.names)

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        value, action = F.col(E.VALUE), F.col(f"{E.VALUE}.action")
        op = F.when(action == "insert", "c").when(action == "update", "u").when(action == "delete", "d")
        named = [value["row"][name].alias(name) for name in key]  # the key columns that a rule under `tables:` names
        columns = [
            F.col(f"{E.VALUE}.row.*"),
            *([F.struct(*named).alias(C.KEY)] if named else []),
            op.alias(C.OP),
            F.coalesce(op == "d", F.lit(False)).alias(C.DELETED),
            position(sortable(value["seq"]), place=F.col(E.PLACE)).alias(C.POSITION),
            F.lit(None).cast("bigint").alias(C.COMMITTED),
            F.coalesce(F.col(E.ERROR), F.when(op.isNull(), RejectReason.OP_UNKNOWN)).alias(C.ERROR),
            *record_columns(events.topic, frame),
        ]
        return Changes(frame.where(value.isNotNull() | F.col(E.ERROR).isNotNull()).select(columns), envelope=False)


@hookimpl
def headrace_dialects() -> dict[str, type[Dialect]]:
    """Return the dialects by the name used under ``dialects:``."""
    return {"example": Example}
