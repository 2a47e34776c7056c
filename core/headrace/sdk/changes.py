"""Changes: what dialects give, transforms map and sinks apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.spark.columns import fold_keys, match_names, name_fold, quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

PREFIX = "_headrace_"
#: headrace's own columns, beside those of the event. Only POSITION is kept in a table.
OP = PREFIX + "op"  # string: c, u, d, r
DELETED = PREFIX + "deleted"  # boolean: the row is to be removed
KEY = PREFIX + "key"  # struct of the key columns; transforms treat it like a row image
POSITION = PREFIX + "position"  # string: sorts all changes of a key as the database made them; a tombstone's is lowest
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
TIMESTAMP = PREFIX + "timestamp"  # timestamp: the record's own; only where the transport has one
FILE = PREFIX + "file"
PLACE = PREFIX + "place"
RAW = PREFIX + "raw"
RAW_KEY = PREFIX + "raw_key"  # binary: the key as it arrived; only where the transport has one
HEADERS = PREFIX + "headers"  # array<struct<key: string, value: binary>>: likewise
TOMBSTONE = (
    PREFIX + "tombstone"
)  # boolean: the record has no value; only in rows that a sink is given (``Sink.record_columns``)

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
    #: Where they go; None for a DataFrame of one's own.
    table: str | None = None
    #: Column of a flat row → the envelope's field that it was taken from: ``("before", "email")``, ``("source", "query")``.
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Where tombstones are among the changes: what their ``Dialect.position_parts`` are. Set by the engine.
    position_parts: str | None = None

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
        names: dict[str, str] = {}
        fold = name_fold(self.frame.sparkSession)
        for image in reversed(IMAGES):
            if image in self.frame.columns:
                for name in _fields(self.frame.schema, image):
                    names.setdefault(fold(name), name)
        return list(names.values())

    def find_columns(self, names: Iterable[str]) -> dict[str, str]:
        """The columns of the row and the key that are among ``names``, or were taken from one → how they are written there.

        Names are compared as the session compares them.
        """
        columns = {name: name for name in [*self.row_columns, *self.key_columns]}
        columns |= {name: path[1] for name, path in self.origins.items() if len(path) == 2 and path[0] in IMAGES}
        found = match_names(self.frame.sparkSession, names, dict.fromkeys([*columns, *columns.values()]))
        by_name = {column: column if column in found else origin for column, origin in columns.items()}
        return {column: found[name] for column, name in by_name.items() if name in found}

    def map_rows(
        self, values: Mapping[str, ColumnMap] | None = None, names: Mapping[str, str] | None = None
    ) -> Changes:
        """Every row image and the key with ``values`` applied to columns and ``names`` (old → new) to their names.

        What was taken from a row image gets the value that the image's column gets.
        """
        from pyspark.sql import functions as F

        row = _RowMap(self.frame.sparkSession, values or {}, names or {})
        self._refuse_doubles(row)
        images = {KEY, NEW_KEY, *(IMAGES if self.envelope else ())}
        images |= {name for name, path in self.origins.items() if len(path) == 1 and path[0] in IMAGES}
        columns: list[Column] = []
        origins: dict[str, tuple[str, ...]] = {}
        for name in self.frame.columns:
            column, path = F.col(quote_name(name)), self.origins.get(name, ())
            is_row_column = not (self.envelope or name.startswith(PREFIX))
            new_name = row.name(name) if is_row_column else name
            if name in images:
                column = row.image(column, _fields(self.frame.schema, name))
            elif name == UNAVAILABLE:
                column = F.struct(*[column.getField(f).alias(row.name(f)) for f in _fields(self.frame.schema, name)])
            elif is_row_column:
                is_of_image = len(path) == 2 and path[0] in IMAGES
                column = row.value(column, name, *path[1:] if is_of_image else ())
                path = (path[0], row.name(path[1])) if is_of_image else path
            columns.append(column.alias(new_name))
            origins |= {new_name: path} if path else {}
        return replace(self, frame=self.frame.select(*columns), origins=origins)

    def _refuse_doubles(self, row: _RowMap) -> None:
        # Every table format takes names without regard to case.
        for columns in (self.row_columns, self.key_columns):
            result = [row.name(column).lower() for column in columns]
            for old in columns:
                if row.name(old) != old and result.count(row.name(old).lower()) > 1:
                    what = f"two columns would be called {row.name(old)!r}"
                    raise DataError(what, fix="rename to a name that is not taken")


class _RowMap:
    """What becomes of a row's columns, found by their names as the session compares them."""

    def __init__(self, session: SparkSession, values: Mapping[str, ColumnMap], names: Mapping[str, str]) -> None:
        self._fold = name_fold(session)
        self._values, self._names = fold_keys(values, self._fold), fold_keys(names, self._fold)

    def name(self, column: str) -> str:
        return self._names.get(self._fold(column), column)

    def value(self, column: Column, *names: str) -> Column:
        """The column as the first of its names that is to be changed says."""
        changes = [self._values[name] for name in map(self._fold, names) if name in self._values]
        return changes[0](column) if changes else column

    def image(self, whole: Column, fields: Iterable[str]) -> Column:
        from pyspark.sql import functions as F

        cells = [self.value(whole.getField(name), name).alias(self.name(name)) for name in fields]
        return F.when(whole.isNotNull(), F.struct(*cells)) if cells else whole


def _fields(schema: StructType, name: str) -> list[str]:
    kind = schema[name].dataType
    return list(kind.names) if hasattr(kind, "names") else []
