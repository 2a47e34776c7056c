"""Debezium's change-event envelopes: before, after, source, op."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from headrace.config.suggest import did_you_mean
from headrace.contracts import changes as C
from headrace.contracts import events as E
from headrace.contracts.changes import Changes
from headrace.contracts.dialect import Dialect
from headrace.contracts.position import position, sortable
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.contracts.events import Events

ROW_OPS = ("c", "r", "u")
#: Truncate and logical message: real events that are no row.
OTHER_OPS = ("t", "m")


class DebeziumDialect(Dialect):
    """Envelopes of Debezium 1.x, 2.x and 3.x."""

    name = "debezium"
    api_version = 1
    priority = 10

    @classmethod
    def recognises(cls, schema: StructType) -> bool:
        has_source = "source" in schema.names and "connector" in getattr(schema["source"].dataType, "names", ())
        return has_source and any(name in schema.names for name in ("op", *C.IMAGES))

    def needed(self, schema: StructType, *, key: Collection[str], whole_before: bool) -> StructType:
        from pyspark.sql.types import StructField, StructType

        if whole_before or not key or "before" not in schema.names:
            return schema
        before = schema["before"].dataType
        assert isinstance(before, StructType)
        small = StructType([field for field in before if field.name in key])
        return StructType([StructField(f.name, small) if f.name == "before" and small.fields else f for f in schema])

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        schema = events.schema
        if "op" not in schema.names:
            raise DataError(
                "its envelopes have no `op`, so an insert cannot be told from a delete",
                where=f"topic {events.topic}",
                fix="let Debezium's own envelope through, or flatten it with ExtractNewRecordState",
            )
        value = F.col(E.VALUE)
        op = value.getField("op")
        after = value.getField("after") if "after" in schema.names else F.lit(None)
        unknown = F.when(op.isNull(), "op-missing").when(op.isin(*OTHER_OPS), "op-not-a-row").when(~op.isin(*ROW_OPS, "d"), "op-unknown")
        wrong = unknown.when(op.isin(*ROW_OPS) & after.isNull(), "after-missing")
        source = schema["source"].dataType
        fields = getattr(source, "names", [])
        block = value.getField("source")
        committed = block.getField("ts_ms").cast("bigint") if "ts_ms" in fields else F.lit(None).cast("bigint")
        columns = [value.getField(name).alias(name) for name in schema.names if name in frame.schema[E.VALUE].dataType.names]  # type: ignore[attr-defined]
        key_column = _key(events, frame, key)
        return Changes(
            # A null body without an error is a tombstone: the delete before it has said everything.
            frame.where(value.isNotNull() | F.col(E.ERROR).isNotNull()).select(
                *columns,
                op.alias(C.OP),
                F.coalesce(op == "d", F.lit(False)).alias(C.DELETED),
                *([key_column.alias(C.KEY)] if key_column is not None else []),
                source_position(fields, block.getField, F.col(E.PLACE)).alias(C.POSITION),
                committed.alias(C.COMMITTED),
                F.coalesce(F.col(E.ERROR), wrong).alias(C.ERROR),
                *record_columns(events.topic),
            ),
            envelope=True,
        )


def source_position(fields: Collection[str], field: Callable[[str], Column], place: Column) -> Column:
    """The position in a source block that has ``fields``: by the connector's own order, then the record's place.

    PostgreSQL: last commit's LSN (null first), then the event's. MySQL and MariaDB: number of the binlog file, position,
    row. SQL Server: commit LSN, change LSN, serial. Else the place alone.
    """
    from pyspark.sql import functions as F

    if "lsn" in fields or "sequence" in fields:
        lsn = field("lsn") if "lsn" in fields else F.lit(None)
        if "sequence" not in fields:
            return position(sortable(F.lit(None)), sortable(lsn), place=place)
        pair = F.split(F.translate(field("sequence"), '[]" ', ""), ",")
        return position(sortable(F.get(pair, F.lit(0))), sortable(F.coalesce(F.get(pair, F.lit(1)).cast("bigint"), lsn)), place=place)
    if "pos" in fields and "file" in fields:
        number = F.regexp_extract(field("file"), r"(\d+)$", 1)
        row = field("row") if "row" in fields else F.lit(None)
        return position(sortable(number), sortable(field("pos")), sortable(row), place=place)
    if "commit_lsn" in fields:
        texts = [F.coalesce(field(name), F.lit("")) if name in fields else F.lit("") for name in ("commit_lsn", "change_lsn")]
        serial = field("event_serial_no") if "event_serial_no" in fields else F.lit(None)
        return position(*[F.concat(sortable(F.length(text)), text) for text in texts], sortable(serial), place=place)
    return position(place=place)


def record_columns(topic: str) -> list[Column]:
    """Where the record came from, for dead letters."""
    from pyspark.sql import functions as F

    return [
        F.lit(topic).alias(C.TOPIC),
        F.col(E.PARTITION).alias(C.PARTITION),
        F.col(E.OFFSET).alias(C.OFFSET),
        F.col(E.FILE).alias(C.FILE),
        F.col(E.RAW).alias(C.RAW),
    ]


def _key(events: Events, frame: DataFrame, key: Collection[str]) -> Column | None:
    """The key's struct: the record's own, else the named columns of whichever row image is there."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if E.KEY in frame.columns:
        return F.col(E.KEY)
    if not key:
        return None
    images = {name: events.schema[name].dataType for name in C.IMAGES if name in events.schema.names}
    columns = {c: None for kind in images.values() if isinstance(kind, StructType) for c in kind.names}
    fields = []
    for name in key:
        if name not in columns:
            raise DataError(f"there is no key column {name!r}", where=f"topic {events.topic}", fix=did_you_mean(name, columns))
        holders = [F.col(f"{E.VALUE}.{i}").getField(name) for i in ("after", "before") if i in images and name in getattr(images[i], "names", ())]
        fields.append(F.coalesce(*holders).alias(name))
    return F.struct(*fields)


__all__ = ["DebeziumDialect", "record_columns", "source_position"]
