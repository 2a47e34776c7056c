"""Debezium's change-event envelopes: before, after, source, op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from headrace.sdk import Changes, Config, DataError, Dialect, RejectReason, changes as C, events as E
from headrace.sdk.columns import any_of, fold_name, match_names, reuse_columns
from headrace.sdk.events import record_columns
from headrace.sdk.positions import OFFSET_ORDER, position
from headrace_sources.dialects.log_positions import (
    SNAPSHOT_OP,
    explain_missing_position,
    fail_without_position,
    find_connector,
    find_unusable_connectors,
    list_own_orders,
    load_connectors,
    name_order,
    position_pattern,
    read_log_position,
    snapshot_columns,
)
from headrace_sources.dialects.record_columns import (
    drop_tombstones_without_key,
    fill_key,
    find_key_columns,
    key_change_columns,
    record_key_names,
    source_path,
    source_table,
    spell_key_columns,
    with_tombstones,
)
from headrace_sources.dialects.row_images import unite_images
from headrace_sources.dialects.unavailable_values import PLACEHOLDER, check_placeholder, placeholder_tests

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.sdk import Connector, Events, HeadraceError

ROW_OPS = ("c", "r", "u")
#: Fields of an envelope. An envelope without a connector's name has no other fields.
_ENVELOPE = frozenset({*C.IMAGES, "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"})
#: Fields of a transaction's BEGIN record. In JSON without schemas it has no others.
_TRANSACTION_BEGIN = frozenset({"status", "id", "ts_ms"})
_TRANSACTION = _TRANSACTION_BEGIN | {"event_count", "data_collections", "ts_us", "ts_ns"}
#: Fields that only schema changes have.
_CHANGE_MARKS = ("ddl", "tableChanges")
#: All fields of a schema change and of a connector's schema history.
_SCHEMA_CHANGE = frozenset(
    {*_CHANGE_MARKS, "source", "position", "databaseName", "schemaName", "status", "ts_ms", "ts_us", "ts_ns"}
)


class DebeziumConfig(Config):
    """Options that must have the same values as in the connector."""

    unavailable_value_placeholder: Annotated[str, AfterValidator(check_placeholder)] = Field(
        PLACEHOLDER, alias="unavailable.value.placeholder", min_length=1
    )
    """Placeholder of large values that an update did not change: the value of the connector's option of the same name. As in the
    connector, ``hex:`` and hexadecimal digits are bytes.
    """


class ConnectorDialect(Dialect):
    """Base class of the dialects for Debezium's events: envelopes, and rows flattened from envelopes."""

    api_version = 1
    Config = DebeziumConfig
    config: DebeziumConfig

    def parts(self) -> Sequence[Connector]:
        # A pipeline includes third-party connectors in its package, checks and warnings.
        return load_connectors().third_party

    def warnings(self) -> Iterable[str]:
        effect = f"a topic that only its connector can order is ordered by {OFFSET_ORDER}"
        return [f"{reason}; {effect}" for reason in find_unusable_connectors()]

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_missing_position(error)


class DebeziumDialect(ConnectorDialect):
    """Envelopes of Debezium 1.x, 2.x and 3.x, and of Flink, whose envelopes have a small source block or none."""

    name = "debezium"
    api_version = 1
    priority = 10

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        if _has_source_block(schema):
            return any(name in schema.names for name in ("op", *C.IMAGES))
        is_alone = "source" not in schema.names or _is_struct(schema, "source")
        has_image = any(_is_struct(schema, image) for image in C.IMAGES)
        return is_alone and has_image and "op" in schema.names and set(schema.names) <= _ENVELOPE

    def metadata_topic(self, topic: str, schema: StructType) -> str | None:
        # The topic's name is not sufficient, because the database may have a table with this name.
        names = set(schema.names)
        if topic.startswith("__debezium-heartbeat.") and ("ts_ms" in names or not names):
            return "Debezium's heartbeats"
        if topic.endswith(".transaction") and _is_transaction(schema):
            return "transaction boundaries"
        is_change = not names.isdisjoint(_CHANGE_MARKS) and names <= _SCHEMA_CHANGE
        if is_change and (_has_source_block(schema) or _is_schema_history(schema)):
            return "schema changes"
        if {"op", "message"} <= names and not names & set(C.IMAGES) and _has_source_block(schema):
            return "logical messages"
        return None

    def read_schema(self, schema: StructType, *, key: Collection[str], with_row_before: bool) -> StructType:
        from pyspark.sql.types import StructField, StructType

        images = {name: schema[name].dataType for name in C.IMAGES if isinstance(_type_of(schema, name), StructType)}
        if "before" not in images:
            return schema
        # Both images are rows of one table and get one type; JSON inference may find two.
        after, row = unite_images(images.get("after", images["before"]), images["before"])
        assert isinstance(row, StructType)
        names = {fold_name(name) for name in key}  # the session's case sensitivity is unknown here
        before = row if with_row_before else StructType([field for field in row if fold_name(field.name) in names])
        types = {"before": before, "after": after}
        fields = [StructField(f.name, types[f.name]) if f.name in images else f for f in schema]
        return StructType([field for field in fields if field.name != "before" or before.fields])

    def source_table(self, schema: StructType, key: Collection[str]) -> Column | None:
        from pyspark.sql import functions as F

        return source_table(_names_in(schema, "source"), F.col("source").getField, key)

    def source_path(self, schema: StructType) -> Column | None:
        from pyspark.sql import functions as F

        return source_path(_names_in(schema, "source"), F.col("source").getField)

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        connector = find_connector(_names_in(schema, "source"))
        if connector and connector.sends_whole_rows:
            return {}
        rows = [_type_of(schema, image) for image in C.IMAGES]
        fields = {field.name: field.dataType for row in rows for field in getattr(row, "fields", ())}
        return placeholder_tests(fields, self.config.unavailable_value_placeholder)

    def order(self, events: Events) -> str:
        return name_order(_position_fields(events))

    def position_parts(self, events: Events) -> str | None:
        has_key = bool(getattr(events.key_schema, "names", ()))
        return position_pattern(_position_fields(events)) if has_key else None

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        schema: StructType = frame.schema[E.VALUE].dataType  # type: ignore[assignment]
        source_fields = _names_in(schema, "source")
        _check_envelope(events.topic, schema, source_fields)
        fields = _position_fields(events)
        value = F.col(E.VALUE)
        op = value.getField("op")
        committed = F.col(f"{E.VALUE}.source").getField("ts_ms") if "ts_ms" in source_fields else F.lit(None)
        key_column, is_tombstone = _key(events.topic, frame, key), value.isNull() & F.col(E.ERROR).isNull()
        place_position, log_position, lacks_position, snapshots = _order_events(tuple(fields), find_connector(fields))
        rejected = F.when(
            value.isNotNull(),
            _reject_reason(has_after="after" in schema.names, has_heartbeats={"source", "ts_ms"} <= set(schema.names)),
        )
        reason = F.coalesce(F.col(E.ERROR), rejected)
        marks = find_metadata_fields(schema)
        if marks:  # This reason precedes that of a missing key column, because keys of metadata have other columns.
            is_metadata = op.isNull() & any_of(value.getField(name).isNotNull() for name in marks)
            reason = F.when(is_metadata, RejectReason.OP_NOT_A_ROW).otherwise(reason)
        return Changes(
            drop_tombstones_without_key(frame).select(
                *[value.getField(name).alias(name) for name in schema.names],
                op.alias(C.OP),
                F.coalesce(op == "d", is_tombstone).alias(C.DELETED),
                *([key_column.alias(C.KEY)] if key_column is not None else []),
                with_tombstones(place_position, is_tombstone).alias(C.POSITION),
                *key_change_columns(frame, log_position, has_unavailable=bool(self.unavailable_tests(schema))),
                *snapshots,
                committed.cast("bigint").alias(C.COMMITTED),
                F.coalesce(reason, fail_without_position(events.topic, lacks_position)).alias(C.ERROR),
                *record_columns(events.topic, frame),
            ),
            envelope=True,
        )


def _check_envelope(topic: str, schema: StructType, source_fields: Collection[str]) -> None:
    """Raise DataError for envelopes without an op, or with positions of several databases."""
    if "op" not in schema.names:
        raise DataError(
            "the envelopes have no `op`, so that inserts and deletes cannot be distinguished",
            where=f"topic {topic}",
            fix="use Debezium's complete envelope, or flatten it with ExtractNewRecordState",
        )
    orders = list_own_orders(source_fields)
    if len(orders) > 1:
        raise DataError(
            f"the events come from different databases, ordered by {' and by '.join(orders)}",
            where=f"topic {topic}",
            fix="write the changes of each database to a topic of its own: their positions are not comparable",
        )


@reuse_columns
def _order_events(
    source_fields: tuple[str, ...], connector: Connector | None
) -> tuple[Column, Column, Column, list[Column]]:
    """Return an event's position, its position without the offset, whether it needs one and has none, and the column SNAPSHOT if any."""
    from pyspark.sql import functions as F

    source = F.col(f"{E.VALUE}.source")
    marker = source.getField("snapshot") if "snapshot" in source_fields else None
    is_change = F.col(f"{E.VALUE}.op") != SNAPSHOT_OP
    log_position, lacks_position = read_log_position(connector, source_fields, source.getField, is_change)
    return (
        position(*log_position, place=F.col(E.PLACE)),
        position(*log_position, place=F.lit("")),
        lacks_position,
        snapshot_columns(connector, log_position, marker),
    )


@reuse_columns
def _reject_reason(*, has_after: bool, has_heartbeats: bool) -> Column:
    """Return the reject reason of an envelope that cannot become a row, otherwise null."""
    from pyspark.sql import functions as F

    value = F.col(E.VALUE)
    op, after = value.getField("op"), value.getField("after") if has_after else F.lit(None)
    is_heartbeat = F.lit(False)
    if has_heartbeats:
        has_row = op.isNotNull() | after.isNotNull() | value.getField("source").isNotNull()
        is_heartbeat = ~has_row & value.getField("ts_ms").isNotNull()
    return (
        F.when(is_heartbeat, RejectReason.OP_NOT_A_ROW)
        .when(op.isNull(), RejectReason.OP_MISSING)
        .when(op == "t", RejectReason.TRUNCATED)
        .when(op == "m", RejectReason.OP_NOT_A_ROW)
        .when(~op.isin(*ROW_OPS, "d"), RejectReason.OP_UNKNOWN)
        .when(op.isin(*ROW_OPS) & after.isNull(), RejectReason.AFTER_MISSING)
    )


def _key(topic: str, frame: DataFrame, key: Collection[str]) -> Column | None:
    """Return the key's struct, from the record's key or from the named columns of the row images."""
    from pyspark.sql import functions as F

    schema: StructType = frame.schema[E.VALUE].dataType  # type: ignore[assignment]
    images = {image: _names_in(schema, image) for image in ("after", "before")}
    known = [column for names in images.values() for column in names]
    has_own_key = bool(record_key_names(frame))
    if not has_own_key and not known:
        if key:
            _refuse_documents(topic, schema)
        return None  # A batch of only truncates has no row and no columns.
    names = spell_key_columns(frame, key, known) if has_own_key else find_key_columns(topic, frame, key, known)
    columns = {name: _choose_image(frame, images, name) for name in names}
    if has_own_key:
        return fill_key(frame, columns)
    return F.struct(*[column.alias(name) for name, column in columns.items()]) if key else None


def _refuse_documents(topic: str, schema: StructType) -> None:
    """Raise DataError for row images that are strings: they have no columns."""
    if any(_type_name(schema, image) == "string" for image in C.IMAGES):
        raise DataError(
            "the events contain documents as strings (as from MongoDB) instead of rows",
            where=f"topic {topic}",
            fix="flatten them with ExtractNewDocumentState of Debezium's MongoDB connector",
        )


def _choose_image(frame: DataFrame, images: Mapping[str, Collection[str]], name: str) -> Column:
    """Return a column's value from ``before`` if the row is deleted, otherwise from ``after``."""
    from pyspark.sql import functions as F

    values = {
        image: F.col(f"{E.VALUE}.{image}").getField(field)
        for image, names in images.items()
        for field in match_names(frame.sparkSession, [name], names)
    }
    if len(values) < len(images):
        return next(iter(values.values()))
    # Null is a value: the other image may have an older one.
    is_row = F.col(f"{E.VALUE}.op").isin(*ROW_OPS) & F.col(f"{E.VALUE}.after").isNotNull()
    return F.when(is_row, values["after"]).otherwise(F.coalesce(values["before"], values["after"]))


def _position_fields(events: Events) -> Collection[str]:
    """Return the source fields that select the order and form the position."""
    return () if events.by_offset else _names_in(events.schema, "source")


def _has_source_block(schema: StructType) -> bool:
    """Return whether the events have Debezium's source block, or may have one if only field names are known."""
    return _type_name(schema, "source") == "void" or "connector" in _names_in(schema, "source")


def _is_transaction(schema: StructType) -> bool:
    """Return whether the records are transaction boundaries."""
    names = set(schema.names)
    if not {"status", "id"} <= names <= _TRANSACTION:
        return False
    return bool(names & {"event_count", "data_collections"}) or (
        names == _TRANSACTION_BEGIN and _type_name(schema, "id") in ("string", "void")
    )


def find_metadata_fields(schema: StructType) -> list[str]:
    """Return the fields that only metadata has, in a schema of a topic with both rows and metadata."""
    names = [*_CHANGE_MARKS] if _has_source_block(schema) else []
    # Flat rows may have these columns themselves. The fields of an envelope have other names.
    if {"status", "id"} <= set(schema.names) and any(_is_struct(schema, image) for image in C.IMAGES):
        names.append("status")
    return [name for name in names if name in schema.names]


def _is_schema_history(schema: StructType) -> bool:
    """Return whether the records are a connector's schema history, which is always JSON and lacks ``ddl`` for SQL Server."""
    return _is_struct(schema, "source") and _is_struct(schema, "position")


def _is_struct(schema: StructType, name: str) -> bool:
    return _type_name(schema, name) in ("struct", "void")


def _type_name(schema: StructType, name: str) -> str | None:
    """Return the name of a field's type: ``void`` if only the field's name is known, None without the field."""
    return schema[name].dataType.typeName() if name in schema.names else None


def _type_of(schema: StructType, name: str) -> DataType | None:
    return schema[name].dataType if name in schema.names else None


def _names_in(schema: StructType, name: str) -> Collection[str]:
    """Return the field names of a struct field."""
    names: Collection[str] = getattr(_type_of(schema, name), "names", ())
    return names
