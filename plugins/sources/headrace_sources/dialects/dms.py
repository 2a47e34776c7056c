"""Records of AWS DMS (Database Migration Service), as it writes them to Kinesis and to Kafka."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import Changes, Dialect, RejectReason, changes as C, events as E
from headrace.sdk.columns import fold_name
from headrace.sdk.events import record_columns
from headrace.sdk.positions import OFFSET_ORDER, position, sortable
from headrace_sources.dialects.log_positions import explain_missing_position, fail_without_position
from headrace_sources.dialects.record_columns import find_key_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

    from headrace.sdk import Events, HeadraceError

#: Fields of a record: the row, the row before an update, and DMS's metadata.
_ROW, _BEFORE, _METADATA = "data", "before-image", "metadata"
#: Prefix of DMS's own tables.
_OWN_TABLES = "awsdms_"
#: Internal columns: the database's table; whether a change deletes the old key of an update.
_TABLE, _IS_OLD = C.PREFIX + "dms_table", C.PREFIX + "dms_is_old"


class DmsDialect(Dialect):
    """Records with the row in ``data`` and the operation in ``metadata``. Control records of tables and tasks are not rows."""

    name = "dms"
    api_version = 1
    row_fields = (_ROW, _BEFORE)

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return {"record-type", "operation"} <= set(_names(schema, _METADATA))

    def metadata_topic(self, topic: str, schema: StructType) -> str | None:
        return "control records of AWS DMS" if self.matches(schema) and _ROW not in schema.names else None

    def read_schema(self, schema: StructType, *, key: Collection[str], with_row_before: bool) -> StructType:
        from pyspark.sql.types import StructField, StructType

        # Only the key of the row before an update is read. Both rows get one type, so that they can be compared.
        names = {fold_name(name) for name in key} & {fold_name(name) for name in _names(schema, _BEFORE)}
        row = _fields(schema, _ROW)
        old_key = [field for field in row if fold_name(field.name) in names]
        fields = {_ROW: row, _BEFORE: old_key, _METADATA: _fields(schema, _METADATA)}
        return StructType([StructField(name, StructType(inner)) for name, inner in fields.items() if inner])

    def source_table(self, schema: StructType, key: Collection[str]) -> Column | None:
        from pyspark.sql import functions as F

        return F.col(_TABLE)

    def order(self, events: Events) -> str:
        return "when AWS DMS wrote the record" if _has_time(events) else OFFSET_ORDER

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_missing_position(error)

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        schema: StructType = frame.schema[E.VALUE].dataType  # type: ignore[assignment]
        names, old_key = _names(schema, _ROW), _names(schema, _BEFORE)
        # A batch of only control records has no row and no columns.
        key = find_key_columns(events.topic, frame, key, names) if names else []
        is_old, row, before = F.col(_IS_OLD), _field(schema, _ROW), _field(schema, _BEFORE)

        def cell(name: str) -> Column:
            value = row.getField(name)
            old = F.coalesce(before.getField(name), value) if name in old_key else value
            return F.when(is_old, old).otherwise(value).alias(name)

        kind, operation, database, table = (
            _metadata(schema, name) for name in ("record-type", "operation", "schema-name", "table-name")
        )
        is_row = ~F.coalesce((kind == "control") | table.startswith(_OWN_TABLES), F.lit(False))
        op = F.when(is_old | (operation == "delete"), "d").when(operation == "update", "u")
        op = op.when(operation == "insert", "c").when(operation == "load", "r")
        reason = (
            F.when(~is_row, RejectReason.OP_NOT_A_ROW)
            .when(operation.isNull(), RejectReason.OP_MISSING)
            .when(op.isNull(), RejectReason.OP_UNKNOWN)
            .when(row.isNull(), RejectReason.AFTER_MISSING)
        )
        time = _time(schema, "timestamp") if _has_time(events) else None
        lacks_position = is_row & time.isNull() if time is not None else F.lit(False)
        reason = F.coalesce(F.col(E.ERROR), reason, fail_without_position(events.topic, lacks_position))
        return Changes(
            _split_updates_of_keys(E.drop_tombstones(frame), old_key).select(
                *map(cell, names),
                op.alias(C.OP),
                F.coalesce(op == "d", F.lit(False)).alias(C.DELETED),
                *([F.struct(*map(cell, key)).alias(C.KEY)] if key else []),
                _position(time).alias(C.POSITION),
                F.unix_millis(_time(schema, "commit-timestamp")).alias(C.COMMITTED),
                reason.alias(C.ERROR),
                F.when(is_row & table.isNotNull(), F.concat_ws(".", database, table)).alias(_TABLE),
                *record_columns(events.topic, frame),
            ),
            envelope=False,
        )


def _split_updates_of_keys(frame: DataFrame, old_key: Collection[str]) -> DataFrame:
    """Add IS_OLD. A record that changes a column of ``old_key`` becomes two: first the delete of the old key."""
    from pyspark.sql import functions as F

    if not old_key:
        return frame.withColumn(_IS_OLD, F.lit(False))
    row, before, operation = (F.col(f"{E.VALUE}.{path}") for path in (_ROW, f"`{_BEFORE}`", f"{_METADATA}.operation"))
    # Null if the database sends only changed columns.
    is_moved = reduce(lambda a, b: a | b, [before.getField(name) != row.getField(name) for name in old_key])
    halves = F.when((operation == "update") & is_moved, F.array(F.lit(True), F.lit(False)))
    return frame.select("*", F.explode(F.coalesce(halves, F.array(F.lit(False)))).alias(_IS_OLD))


def _has_time(events: Events) -> bool:
    """Return whether the time when DMS wrote a record orders the topic."""
    return "timestamp" in _names(events.schema, _METADATA) and not events.by_offset


def _position(time: Column | None) -> Column:
    """Return the time when DMS wrote the record, if it orders the topic, then the location of the record.

    The delete of an old key has the higher position.
    """
    from pyspark.sql import functions as F

    times = [] if time is None else [sortable(F.unix_micros(time))]
    return position(*times, place=F.concat(F.col(E.PLACE), F.when(F.col(_IS_OLD), "-").otherwise("")))


def _metadata(schema: StructType, name: str) -> Column:
    """Return a metadata field as a string; null if no record has it."""
    from pyspark.sql import functions as F

    is_known = name in _names(schema, _METADATA)
    return (_field(schema, _METADATA).getField(name) if is_known else F.lit(None)).cast("string")


def _time(schema: StructType, name: str) -> Column:
    from pyspark.sql import functions as F

    return F.try_to_timestamp(_metadata(schema, name))


def _field(schema: StructType, name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(E.VALUE).getField(name) if name in schema.names else F.lit(None)


def _fields(schema: StructType, name: str) -> list[StructField]:
    """Return the fields of a struct field."""
    return list(getattr(schema[name].dataType, "fields", ())) if name in schema.names else []


def _names(schema: StructType, name: str) -> list[str]:
    return [field.name for field in _fields(schema, name)]
