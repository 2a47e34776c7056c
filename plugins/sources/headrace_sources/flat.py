"""Flat rows, as ExtractNewRecordState leaves them: op, deletion and position in fields that start with ``__``."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.config.suggest import did_you_mean
from headrace.contracts import changes as C
from headrace.contracts import events as E
from headrace.contracts.changes import Changes
from headrace.contracts.dialect import Dialect
from headrace.errors import DataError
from headrace_sources.debezium import record_columns, source_position

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.contracts.events import Events

_POSITION_FIELDS = ("sequence", "lsn", "file", "pos", "row", "commit_lsn", "change_lsn", "event_serial_no")


class FlatDialect(Dialect):
    """Any record is a row; ``__op``, ``__deleted``, ``__lsn`` and the like say more, with or without ``source_``."""

    name = "flat"
    api_version = 1
    priority = 100

    @classmethod
    def recognises(cls, schema: StructType) -> bool:
        return True

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        value, names = F.col(E.VALUE), events.schema.names

        def extra(*candidates: str) -> Column | None:
            found = next((name for name in candidates if name in names), None)
            return value.getField(found) if found else None

        op = extra("__op")
        flag = extra("__deleted")
        deleted = F.coalesce(flag.cast("string") == "true", F.lit(False)) if flag is not None else F.lit(False)
        if op is not None:
            deleted = deleted | F.coalesce(op == "d", F.lit(False))
        fields = {name: f for name in _POSITION_FIELDS for f in (f"__source_{name}", f"__{name}") if f in names}
        committed = extra("__source_ts_ms", "__ts_ms")
        key_column: Column | None = F.col(E.KEY) if E.KEY in frame.columns else None
        if key_column is None and key:
            for name in key:
                if name not in names:
                    raise DataError(f"there is no key column {name!r}", where=f"topic {events.topic}", fix=did_you_mean(name, names))
            key_column = F.struct(*[value.getField(name).alias(name) for name in key])
        return Changes(
            frame.where(value.isNotNull() | F.col(E.ERROR).isNotNull()).select(
                *[value.getField(name).alias(name) for name in names],
                (op if op is not None else F.lit(None).cast("string")).alias(C.OP),
                deleted.alias(C.DELETED),
                *([key_column.alias(C.KEY)] if key_column is not None else []),
                source_position(fields, lambda name: value.getField(fields[name]), F.col(E.PLACE)).alias(C.POSITION),
                (committed.cast("bigint") if committed is not None else F.lit(None).cast("bigint")).alias(C.COMMITTED),
                F.col(E.ERROR).alias(C.ERROR),
                *record_columns(events.topic),
            ),
            envelope=False,
        )
