"""Changes: what dialects give, transforms map and sinks apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PREFIX = "_headrace_"
#: headrace's own columns, beside those of the event. Only POSITION is kept in a table.
OP = PREFIX + "op"  # string: c, u, d, r
DELETED = PREFIX + "deleted"  # boolean: the row is to be removed
KEY = PREFIX + "key"  # struct of the key columns; transforms treat it like a row image
POSITION = PREFIX + "position"  # string: sorts all changes of a key as the database made them
COMMITTED = PREFIX + "committed_ms"  # bigint: the database's commit time in ms since 1970, null when unknown
ERROR = PREFIX + "error"  # string: why this record cannot become a row (headrace.sdk.reject_reason), else null
#: Struct of booleans by the row's columns: true where the event leaves the value out because it is as it was. Only where
#: a batch has such a value.
UNAVAILABLE = PREFIX + "unchanged"
#: Of a delete that is one half of a change of the key, where its record says so: the key of the other half, a struct like KEY,
#: and a position before that half and after all that was before the change.
NEW_KEY, KEY_CHANGE_POSITION = PREFIX + "new_key", PREFIX + "moved"
#: Of a row that a snapshot of the whole table read: a struct of ``began``, the position at which the snapshot began, which is
#: lower than that of each of its rows and higher than what was before, and ``is_last``, whether the row is the table's last.
#: Only where events tell. What a table has of before goes when its user asks for it (``headrace resync``).
SNAPSHOT = PREFIX + "snapshot"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
FILE = PREFIX + "file"
PLACE = PREFIX + "place"
RAW = PREFIX + "raw"
RAW_KEY = PREFIX + "raw_key"  # binary: the key as it arrived; only where the transport has one
HEADERS = PREFIX + "headers"  # array<struct<key: string, value: binary>>: likewise

IMAGES = ("before", "after")

ColumnMap = Callable[["Column"], "Column"]


@dataclass(frozen=True)
class Changes:
    """A DataFrame of changes.

    ``envelope`` True: the event's own columns, with row images ``before`` and ``after``. False: flat rows.
    Columns that start with ``_headrace_`` are headrace's and travel along.
    """

    frame: DataFrame
    envelope: bool

    @property
    def own_columns(self) -> list[str]:
        return [c for c in self.frame.columns if c.startswith(PREFIX)]

    @property
    def event_columns(self) -> list[str]:
        return [c for c in self.frame.columns if not c.startswith(PREFIX)]

    @property
    def key_columns(self) -> list[str]:
        return _fields(self.frame.schema, KEY) if KEY in self.frame.columns else []

    @property
    def row_columns(self) -> list[str]:
        """The columns of the row, whatever image they are in, in order."""
        if not self.envelope:
            return self.event_columns
        names = [
            name
            for image in reversed(IMAGES)
            if image in self.frame.columns
            for name in _fields(self.frame.schema, image)
        ]
        return list(dict.fromkeys(names))

    def map_rows(
        self, values: Mapping[str, ColumnMap] | None = None, names: Mapping[str, str] | None = None
    ) -> Changes:
        """Every row image and the key with ``values`` applied to columns and ``names`` (old → new) to their names."""
        from pyspark.sql import functions as F

        values, names = values or {}, names or {}

        def map_column(name: str, column: Column) -> Column:
            return values.get(name, _same)(column).alias(names.get(name, name))

        def struct(name: str) -> Column:
            whole = F.col(quote_name(name))
            inner = [map_column(f, whole.getField(f)) for f in _fields(self.frame.schema, name)]
            return F.when(whole.isNotNull(), F.struct(*inner)).alias(name) if inner else whole.alias(name)

        self._refuse_doubles(names)
        structs = {KEY, NEW_KEY, *(IMAGES if self.envelope else ())}
        columns = []
        for name in self.frame.columns:
            if name in structs:
                columns.append(struct(name))
            elif name == UNAVAILABLE:
                fields = [F.col(name).getField(f).alias(names.get(f, f)) for f in _fields(self.frame.schema, name)]
                columns.append(F.struct(*fields).alias(name))
            elif self.envelope or name.startswith(PREFIX):
                columns.append(F.col(quote_name(name)))
            else:
                columns.append(map_column(name, F.col(quote_name(name))))
        return replace(self, frame=self.frame.select(*columns))

    def _refuse_doubles(self, names: Mapping[str, str]) -> None:
        # Spark and every table format take names without regard to case.
        for columns in (self.row_columns, self.key_columns):
            result = [names.get(column, column).lower() for column in columns]
            for old in columns:
                if old in names and result.count(names[old].lower()) > 1:
                    raise DataError(
                        f"two columns would be called {names[old]!r}", fix="rename to a name that is not taken"
                    )


def _fields(schema: StructType, name: str) -> list[str]:
    kind = schema[name].dataType
    return list(kind.names) if hasattr(kind, "names") else []


def _same(column: Column) -> Column:
    return column
