"""Debezium's change-event envelopes: before, after, source, op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
)
from headrace_sources.dialects.positions import source_position
from headrace_sources.dialects.record_columns import fill_key, key_change_columns, record_columns, record_key_names
from headrace_sources.dialects.unavailable import PLACEHOLDER, placeholder_tests

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.sdk import Events

ROW_OPS = ("c", "r", "u")
#: What every record of a connector's own history of schemas has. It is JSON whatever the converter, and SQL Server's
#: has no ``ddl``.
_SCHEMA_HISTORY = frozenset({"source", "position", "databaseName", "tableChanges"})
#: A field of the source block that only one family of connectors has.
_DATABASES = {"lsn": "PostgreSQL", "pos": "MySQL", "commit_lsn": "SQL Server"}


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
        if ("ddl" in names and names & {"databaseName", "tableChanges"}) or names >= _SCHEMA_HISTORY:
            return "changes of schemas"
        if {"op", "message"} <= names and not names & set(C.IMAGES):
            return "logical messages"
        return None

    def read_schema(self, schema: StructType, *, key: Collection[str], whole_before: bool) -> StructType:
        from pyspark.sql.types import StructField, StructType

        images = {name: schema[name].dataType for name in C.IMAGES if isinstance(_type_of(schema, name), StructType)}
        if "before" not in images:
            return schema
        # Both images are rows of one table: with one type they can take each other's place. JSON infers two.
        row = add_missing_fields(images["after"], images["before"]) if "after" in images else images["before"]
        assert isinstance(row, StructType)
        before = row if whole_before else StructType([field for field in row if field.name in key])
        types = {"before": before, "after": row}
        fields = [StructField(f.name, types[f.name]) if f.name in images else f for f in schema]
        return StructType([field for field in fields if field.name != "before" or before.fields])

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        if "pos" in _names_in(schema, "source"):  # MySQL's log has whole rows
            return {}
        rows = [_type_of(schema, image) for image in C.IMAGES]
        fields = {field.name: field.dataType for row in rows for field in getattr(row, "fields", ())}
        return placeholder_tests(fields, self.config.unavailable_value_placeholder)

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        schema: StructType = frame.schema[E.VALUE].dataType  # type: ignore[assignment]
        source_fields = _names_in(schema, "source")
        _check_envelope(events.topic, schema, source_fields)
        value = F.col(E.VALUE)
        op, source = value.getField("op"), value.getField("source")
        committed = source.getField("ts_ms") if "ts_ms" in source_fields else F.lit(None)
        key_column = _key(events.topic, frame, key)
        return Changes(
            # A null body without an error is a tombstone: the delete before it has said everything.
            frame.where(value.isNotNull() | F.col(E.ERROR).isNotNull()).select(
                *[value.getField(name).alias(name) for name in schema.names],
                op.alias(C.OP),
                F.coalesce(op == "d", F.lit(False)).alias(C.DELETED),
                *([key_column.alias(C.KEY)] if key_column is not None else []),
                source_position(source_fields, source.getField, F.col(E.PLACE)).alias(C.POSITION),
                *key_change_columns(
                    frame,
                    source_position(source_fields, source.getField, F.lit("")),
                    has_unavailable=bool(self.unavailable_tests(schema)),
                ),
                committed.cast("bigint").alias(C.COMMITTED),
                F.coalesce(F.col(E.ERROR), _reject_reason(op, value, schema)).alias(C.ERROR),
                *record_columns(events.topic, frame),
            ),
            envelope=True,
        )


def _check_envelope(topic: str, schema: StructType, source_fields: Collection[str]) -> None:
    """DataError for envelopes whose changes cannot be told apart, or not be ordered."""
    if "op" not in schema.names:
        raise DataError(
            "its envelopes have no `op`, so an insert cannot be told from a delete",
            where=f"topic {topic}",
            fix="let Debezium's own envelope through, or flatten it with ExtractNewRecordState",
        )
    databases = [database for field, database in _DATABASES.items() if field in source_fields]
    if len(databases) > 1:
        raise DataError(
            f"its events come from different databases: {' and '.join(databases)}",
            where=f"topic {topic}",
            fix="write them to a topic each: between the two, nobody can say which change is newer",
        )


def _reject_reason(op: Column, value: Column, schema: StructType) -> Column:
    """Why an envelope cannot become a row; null where it can."""
    from pyspark.sql import functions as F

    after = value.getField("after") if "after" in schema.names else F.lit(None)
    return (
        F.when(op.isNull(), RejectReason.OP_MISSING)
        .when(op == "t", RejectReason.TRUNCATED)
        .when(op == "m", RejectReason.OP_NOT_A_ROW)
        .when(~op.isin(*ROW_OPS, "d"), RejectReason.OP_UNKNOWN)
        .when(op.isin(*ROW_OPS) & after.isNull(), RejectReason.AFTER_MISSING)
    )


def _key(topic: str, frame: DataFrame, key: Collection[str]) -> Column | None:
    """The key's struct: the record's own, else the named columns of whichever row image is there."""
    from pyspark.sql import functions as F

    schema: StructType = frame.schema[E.VALUE].dataType  # type: ignore[assignment]
    images: dict[str, Any] = {
        image: _type_of(schema, image) for image in ("after", "before") if _names_in(schema, image)
    }
    columns = {
        name: (
            F.coalesce(
                *[F.col(f"{E.VALUE}.{image}").getField(name) for image in images if name in images[image].names]
            ),
            next(images[image][name].dataType for image in images if name in images[image].names),
        )
        for name in key
        if any(name in row.names for row in images.values())
    }
    if record_key_names(frame):
        return fill_key(frame, columns)
    for name in key:
        if name not in columns:
            known = [column for row in images.values() for column in row.names]
            raise DataError(f"there is no key column {name!r}", where=f"topic {topic}", fix=did_you_mean(name, known))
    return F.struct(*[columns[name][0].alias(name) for name in key]) if key else None


def _type_of(schema: StructType, name: str) -> DataType | None:
    return schema[name].dataType if name in schema.names else None


def _names_in(schema: StructType, name: str) -> Collection[str]:
    """The fields of a field that is a struct."""
    names: Collection[str] = getattr(_type_of(schema, name), "names", ())
    return names
