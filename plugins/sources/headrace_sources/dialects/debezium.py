"""Debezium's change-event envelopes: before, after, source, op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headrace.sdk import (
    Changes,
    Config,
    DataError,
    Dialect,
    RejectReason,
    add_missing_fields,
    changes as C,
    did_you_mean,
    events as E,
    position,
    sortable,
)
from headrace_sources.dialects.unavailable import PLACEHOLDER, unavailable
from headrace_sources.registries.framing import header_value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.sdk import Events

ROW_OPS = ("c", "r", "u")
#: The header of a delete that is one half of a change of the key: the other half's.
_NEW_KEY = "__debezium.newkey"
#: What every record of a connector's own history of schemas has. It is JSON whatever the converter, and SQL Server's has
#: no ``ddl``.
_HISTORY = frozenset({"source", "position", "databaseName", "tableChanges"})


#: A field of the source block that only one family of connectors has.
_SIGNS = {"lsn": "PostgreSQL", "pos": "MySQL", "commit_lsn": "SQL Server"}


class DebeziumConfig(Config):
    """What connectors were told, and headrace has to know."""

    #: The connectors' own option: what they send for a large value that an update left alone.
    unavailable_value_placeholder: str = Field(PLACEHOLDER, alias="unavailable.value.placeholder", min_length=1)


class DebeziumDialect(Dialect):
    """Envelopes of Debezium 1.x, 2.x and 3.x."""

    name = "debezium"
    api_version = 1
    priority = 10
    Config = DebeziumConfig
    config: DebeziumConfig

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        has_source = "source" in schema.names and "connector" in getattr(schema["source"].dataType, "names", ())
        return has_source and any(name in schema.names for name in ("op", *C.IMAGES))

    def metadata_topic(self, topic: str, schema: StructType) -> str | None:
        names = set(schema.names)
        if topic.startswith("__debezium-heartbeat."):
            return "Debezium's heartbeats"
        if topic.endswith(".transaction") and {"status", "id"} <= names:
            return "where transactions begin and end"
        if ("ddl" in names and names & {"databaseName", "tableChanges"}) or names >= _HISTORY:
            return "changes of schemas"
        if {"op", "message"} <= names and not names & set(C.IMAGES):
            return "logical messages"
        return None

    def read_schema(self, schema: StructType, *, key: Collection[str], whole_before: bool) -> StructType:
        from pyspark.sql.types import StructField, StructType

        images = {name: schema[name].dataType for name in C.IMAGES if isinstance(_kind(schema, name), StructType)}
        if "before" not in images:
            return schema
        # Both images are rows of one table: with one type they can take each other's place. JSON infers two.
        row = add_missing_fields(images["after"], images["before"]) if "after" in images else images["before"]
        assert isinstance(row, StructType)
        before = row if whole_before else StructType([field for field in row if field.name in key])
        kinds = {"before": before, "after": row}
        fields = [StructField(f.name, kinds[f.name]) if f.name in images else f for f in schema]
        return StructType([field for field in fields if field.name != "before" or before.fields])

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        if "pos" in getattr(_kind(schema, "source"), "names", ()):  # MySQL's log has whole rows
            return {}
        rows = [_kind(schema, image) for image in C.IMAGES]
        fields = {field.name: field.dataType for row in rows for field in getattr(row, "fields", ())}
        return unavailable(fields, self.config.unavailable_value_placeholder)

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        schema = _value(frame)
        if "op" not in schema.names:
            raise DataError(
                "its envelopes have no `op`, so an insert cannot be told from a delete",
                where=f"topic {events.topic}",
                fix="let Debezium's own envelope through, or flatten it with ExtractNewRecordState",
            )
        value = F.col(E.VALUE)
        op = value.getField("op")
        after = value.getField("after") if "after" in schema.names else F.lit(None)
        unknown = (
            F.when(op.isNull(), RejectReason.OP_MISSING)
            .when(op == "t", RejectReason.TRUNCATED)
            .when(op == "m", RejectReason.OP_NOT_A_ROW)
            .when(~op.isin(*ROW_OPS, "d"), RejectReason.OP_UNKNOWN)
        )
        wrong = unknown.when(op.isin(*ROW_OPS) & after.isNull(), RejectReason.AFTER_MISSING)
        fields = getattr(_kind(schema, "source"), "names", ())
        if len(found := [database for field, database in _SIGNS.items() if field in fields]) > 1:
            raise DataError(
                f"its events come from different databases: {' and '.join(found)}",
                where=f"topic {events.topic}",
                fix="write them to a topic each: between the two, nobody can say which change is newer",
            )
        block = value.getField("source")
        committed = block.getField("ts_ms").cast("bigint") if "ts_ms" in fields else F.lit(None).cast("bigint")
        key_column = _key(events.topic, frame, key)
        return Changes(
            # A null body without an error is a tombstone: the delete before it has said everything.
            frame.where(value.isNotNull() | F.col(E.ERROR).isNotNull()).select(
                *[value.getField(name).alias(name) for name in schema.names],
                op.alias(C.OP),
                F.coalesce(op == "d", F.lit(False)).alias(C.DELETED),
                *([key_column.alias(C.KEY)] if key_column is not None else []),
                source_position(fields, block.getField, F.col(E.PLACE)).alias(C.POSITION),
                *moved(
                    frame,
                    source_position(fields, block.getField, F.lit("")),
                    partial=bool(self.unavailable_tests(schema)),
                ),
                committed.alias(C.COMMITTED),
                F.coalesce(F.col(E.ERROR), wrong).alias(C.ERROR),
                *record_columns(events.topic, frame),
            ),
            envelope=True,
        )


def source_position(fields: Collection[str], field: Callable[[str], Column], place: Column) -> Column:
    """The position in a source block that has ``fields``: by the connector's own order, then the record's place.

    PostgreSQL: last commit's LSN (null first), then the event's. MySQL and MariaDB: number of the binlog file, position,
    row. SQL Server: commit LSN, change LSN, serial. Else the place alone.
    """
    from pyspark.sql import functions as F

    # Every connector has a `sequence`, most of them always null: what only one connector has tells which it is.
    if "pos" in fields and "file" in fields:
        number = F.regexp_extract(field("file"), r"(\d+)$", 1)
        row = field("row") if "row" in fields else F.lit(None)
        return position(sortable(number), sortable(field("pos")), sortable(row), place=place)
    if "commit_lsn" in fields:
        texts = [
            F.coalesce(field(name), F.lit("")) if name in fields else F.lit("") for name in ("commit_lsn", "change_lsn")
        ]
        serial = field("event_serial_no") if "event_serial_no" in fields else F.lit(None)
        return position(*[F.concat(sortable(F.length(text)), text) for text in texts], sortable(serial), place=place)
    if "lsn" in fields or "sequence" in fields:
        lsn = field("lsn") if "lsn" in fields else F.lit(None)
        if "sequence" not in fields:
            return position(sortable(F.lit(None)), sortable(lsn), place=place)
        # ["<last commit>","<own>"], either may be null. Cut out: parsing JSON costs more than the rest of a row. The own
        # one is `lsn` again, and is looked for only where that is not told.
        pair = field("sequence")
        commit = F.when(~pair.startswith("[null"), F.substring(F.substring_index(pair, '",', 1), 3, 20))
        last = F.substring(F.ltrim(F.substring_index(pair, ",", -1)), 2, 20)
        own = F.when(~pair.endswith("null]"), F.substring_index(last, '"', 1))
        return position(sortable(commit), sortable(F.coalesce(lsn.cast("bigint"), own.cast("bigint"))), place=place)
    return position(place=place)


def moved(frame: DataFrame, position: Column, *, partial: bool) -> list[Column]:
    """NEW_KEY and MOVED where rows leave values out (``partial``), from the header of a delete that a change of the key made.

    Connect writes such headers as plain JSON, whatever the records' own format. A key that reads otherwise there than in the
    record, a time or bytes, is left alone.
    """
    from pyspark.sql import functions as F, types as T

    names = record_key_columns(frame)
    if not partial or not names or E.HEADERS not in frame.columns:
        return []
    kind: Any = frame.schema[E.KEY].dataType
    plain = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.BooleanType)
    if not all(isinstance(field.dataType, plain) for field in kind):
        return []
    told = F.from_json(header_value(_NEW_KEY).cast("string"), kind)
    whole = reduce(lambda a, b: a & b, [told.getField(name).isNotNull() for name in names])
    return [F.when(whole, told).alias(C.NEW_KEY), position.alias(C.KEY_CHANGE_POSITION)]


def record_columns(topic: str, frame: DataFrame) -> list[Column]:
    """The record as it came and where from, for dead letters."""
    from pyspark.sql import functions as F

    carried = {E.RAW_KEY: C.RAW_KEY, E.HEADERS: C.HEADERS}
    return [
        *[F.col(name).alias(own) for name, own in carried.items() if name in frame.columns],
        F.lit(topic).alias(C.TOPIC),
        F.col(E.PARTITION).alias(C.PARTITION),
        F.col(E.OFFSET).alias(C.OFFSET),
        F.col(E.FILE).alias(C.FILE),
        F.col(E.PLACE).alias(C.PLACE),
        F.col(E.RAW).alias(C.RAW),
    ]


def record_key_columns(frame: DataFrame) -> list[str]:
    """The columns of the records' own key; none where the transport has no keys, or the table has none."""
    return list(getattr(frame.schema[E.KEY].dataType, "names", ())) if E.KEY in frame.columns else []


def _key(topic: str, frame: DataFrame, key: Collection[str]) -> Column | None:
    """The key's struct: the record's own, else the named columns of whichever row image is there."""
    from pyspark.sql import functions as F

    if record_key_columns(frame):
        return F.col(E.KEY)
    if not key:
        return None
    schema = _value(frame)
    images = {image: getattr(_kind(schema, image), "names", ()) for image in ("after", "before")}
    columns = [column for names in images.values() for column in names]
    fields = []
    for name in key:
        if name not in columns:
            raise DataError(f"there is no key column {name!r}", where=f"topic {topic}", fix=did_you_mean(name, columns))
        holders = [F.col(f"{E.VALUE}.{image}").getField(name) for image, names in images.items() if name in names]
        fields.append(F.coalesce(*holders).alias(name))
    return F.struct(*fields)


def _value(frame: DataFrame) -> StructType:
    kind: StructType = frame.schema[E.VALUE].dataType  # type: ignore[assignment]
    return kind


def _kind(schema: StructType, name: str) -> DataType | None:
    return schema[name].dataType if name in schema.names else None


__all__ = ["DebeziumConfig", "DebeziumDialect", "moved", "record_columns", "record_key_columns", "source_position"]
