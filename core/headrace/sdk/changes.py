"""Changes: dialects return them, transforms map them, sinks apply them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.spark.columns import fold_keys, fold_name, match_names, name_fold, quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.schema_log import SchemaLog

PREFIX = "_headrace_"
#: headrace's own columns, in addition to the event's. Tables keep POSITION only.
OP = PREFIX + "op"  # string: c, u, d, r
DELETED = PREFIX + "deleted"  # boolean: the row has to be removed
KEY = PREFIX + "key"  # struct of the key columns; transforms treat it like a row image
POSITION = (
    PREFIX + "position"
)  # string: sorts all changes of a key in the order of the database; a tombstone sorts first
COMMITTED = PREFIX + "committed_ms"  # bigint: the database's commit time in ms since 1970, null when unknown
ERROR = PREFIX + "error"  # string: why this record cannot become a row (headrace.sdk.reject_reason), or null
DETAIL = PREFIX + "detail"  # string: which field caused ERROR, and its type, never its value; only for dead letters
#: Boolean, in rows that a format of files returns: no column of the record could be read.
UNREADABLE = PREFIX + "unreadable"
#: Struct of booleans by the row's columns: true where the event omits the value because it is unchanged. Only when a batch has
#: such a value.
UNAVAILABLE = PREFIX + "unchanged"
#: For the delete of a key change, when its record reports the key change: the key of the insert, a struct like KEY, and a
#: position before the insert and after all earlier changes.
NEW_KEY, KEY_CHANGE_POSITION = PREFIX + "new_key", PREFIX + "moved"
#: For a row that a snapshot of the whole table read: a struct of ``began``, the position at which the snapshot began (lower than
#: its rows' positions, higher than earlier ones), and ``is_last``, whether the row is the table's last. Only when events report it.
#: ``headrace resync`` removes older rows.
SNAPSHOT = PREFIX + "snapshot"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
TIMESTAMP = PREFIX + "timestamp"  # timestamp: the record's own; only when the transport has one
FILE = PREFIX + "file"
PLACE = PREFIX + "place"
RAW = PREFIX + "raw"
RAW_KEY = PREFIX + "raw_key"  # binary: the key as it arrived; only when the transport has one
HEADERS = PREFIX + "headers"  # array<struct<key: string, value: binary>>: only when the transport has them
RECORD_TYPE = PREFIX + "record_type"  # string: the name of the record's schema; only when a topic has several
TOMBSTONE = PREFIX + "tombstone"  # boolean: the record has no value; only in rows for sinks (``Sink.record_columns``)

IMAGES = ("before", "after")

ColumnMap = Callable[["Column"], "Column"]


@dataclass(frozen=True)
class Changes:
    """DataFrame of changes.

    ``envelope`` True: the event's own columns, with row images ``before`` and ``after``. False: flat rows.
    Columns that start with ``_headrace_`` are headrace's and stay with the row.
    """

    frame: DataFrame
    envelope: bool
    #: Target table; None for a DataFrame outside of a pipeline.
    table: str | None = None
    #: Column of a flat row → envelope field from which it was taken: ``("before", "email")``, ``("source", "query")``.
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Column of the row → the columns or fields from which a transform computed it. A mask of one of these must not leave it unmasked.
    derived: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Tag of the pipeline → columns of the row with this tag that no transform has hidden. Set by the engine.
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Columns of the row whose values are in POSITION (``order.by``). Set by the engine.
    ordered: frozenset[str] = frozenset()
    #: The dialect's ``position_parts``, when the changes include tombstones. Set by the engine.
    position_parts: str | None = None
    #: Types that transforms infer from values, kept in the checkpoint. None: nothing is written, as in ``headrace check``, or the
    #: changes are outside of a pipeline. Set by the engine.
    schemas: SchemaLog | None = None
    #: Column of the row, or path of a field → the columns or paths that have its value in some rows, because a transform with ``when``
    #: moved the value of the others. A mask of one of these must not leave it unmasked.
    moved: Mapping[str, frozenset[str]] = field(default_factory=dict)

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
        """Columns of the row in all images, in order."""
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
        """Return row and key columns that are in ``names``, or were taken from one of them → the name as ``names`` spells it.

        Names are compared as the session compares them.
        """
        columns = {name: name for name in [*self.row_columns, *self.key_columns]}
        columns |= {name: path[1] for name, path in self.origins.items() if len(path) == 2 and path[0] in IMAGES}
        found = match_names(self.frame.sparkSession, names, dict.fromkeys([*columns, *columns.values()]))
        by_name = {column: column if column in found else origin for column, origin in columns.items()}
        return {column: found[name] for column, name in by_name.items() if name in found}

    def list_places(self, path: str) -> set[str]:
        """Return the columns and fields that have the value of a column or field in some rows. ``path``: folded."""
        return {
            place if f"{name}.".startswith(f"{path}.") else place + path.removeprefix(name)
            for place, names in self.moved.items()
            for name in map(fold_name, names)
            if f"{name}.".startswith(f"{path}.") or path.startswith(f"{name}.")
        }

    def map_rows(
        self, values: Mapping[str, ColumnMap] | None = None, names: Mapping[str, str] | None = None
    ) -> Changes:
        """Apply ``values`` to columns and ``names`` (old → new) to column names, in each row image and the key.

        A column that was taken from a row image gets the value of the image's column.
        """
        from pyspark.sql import functions as F

        row = _RowMap(self.frame.sparkSession, values or {}, names or {})
        self._reject_duplicates(row)
        images = {KEY, NEW_KEY, *(IMAGES if self.envelope else ())}
        images |= {name for name, path in self.origins.items() if len(path) == 1 and path[0] in IMAGES}
        columns: list[Column] = []
        origins: dict[str, tuple[str, ...]] = {}
        for name in self.frame.columns:
            column, path = F.col(quote_name(name)), self.origins.get(name, ())
            is_row_column = not (self.envelope or name.startswith(PREFIX))
            new_name = row.name(name) if is_row_column else name
            if name in images and (fields := _fields(self.frame.schema, name)):
                column = row.image(column, fields)
            elif name == UNAVAILABLE:
                column = F.struct(*[column.getField(f).alias(row.name(f)) for f in _fields(self.frame.schema, name)])
            elif is_row_column:
                is_of_image = len(path) == 2 and path[0] in IMAGES
                column = row.value(column, name, *path[1:] if is_of_image else ())
                path = (path[0], row.name(path[1])) if is_of_image else path
            columns.append(column.alias(new_name))
            origins |= {new_name: path} if path else {}
        derived = {row.name(name): frozenset(map(row.path, reads)) for name, reads in self.derived.items()}
        moved = {row.path(place): frozenset(map(row.path, names)) for place, names in self.moved.items()}
        tags = {tag: frozenset(map(row.path, tagged)) for tag, tagged in self.tags.items()}
        ordered = frozenset(map(row.name, self.ordered))
        frame = self.frame.select(*columns)
        return replace(self, frame=frame, origins=origins, derived=derived, moved=moved, tags=tags, ordered=ordered)

    def _reject_duplicates(self, row: _RowMap) -> None:
        # All table formats ignore the case of names.
        for columns in (self.row_columns, self.key_columns):
            result = [fold_name(row.name(column)) for column in columns]
            for old in columns:
                if row.name(old) != old and result.count(fold_name(row.name(old))) > 1:
                    what = f"two columns would be named {row.name(old)!r}"
                    raise DataError(what, fix="rename to an unused name")


class _RowMap:
    """Changes of values and names of a row's columns; names are compared as the session compares them."""

    def __init__(self, session: SparkSession, values: Mapping[str, ColumnMap], names: Mapping[str, str]) -> None:
        self._fold = name_fold(session)
        self._values, self._names = fold_keys(values, self._fold), fold_keys(names, self._fold)

    def name(self, column: str) -> str:
        return self._names.get(self._fold(column), column)

    def path(self, path: str) -> str:
        """Return the path of a column or of a field in one."""
        column, *rest = path.split(".", 1)
        return self._names.get(self._fold(path)) or ".".join([self.name(column), *rest])

    def value(self, column: Column, *names: str) -> Column:
        """Return the column with the change of the first of its names that has one."""
        changes = [self._values[name] for name in map(self._fold, names) if name in self._values]
        return changes[0](column) if changes else column

    def image(self, struct: Column, fields: Iterable[str]) -> Column:
        from pyspark.sql import functions as F

        cells = [self.value(struct.getField(name), name).alias(self.name(name)) for name in fields]
        return F.when(struct.isNotNull(), F.struct(*cells)) if cells else struct


def _fields(schema: StructType, name: str) -> list[str]:
    kind = schema[name].dataType
    return list(kind.names) if hasattr(kind, "names") else []
