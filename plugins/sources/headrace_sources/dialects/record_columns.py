"""Columns that dialects make from the record itself: its source, key and headers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, changes as C, events as E
from headrace.sdk.columns import match_names
from headrace.sdk.events import header_value
from headrace.sdk.options import did_you_mean
from headrace.sdk.positions import tombstone_position

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Header of a delete that is half of a key change, with the new key.
_NEW_KEY = "__debezium.newkey"
#: Source fields with the table's name, and those of its schema and database.
SOURCE_TABLE_FIELDS = ("db", "schema", "table")
#: The same fields, after the field with the name of the server.
SOURCE_PATH_FIELDS = ("name", *SOURCE_TABLE_FIELDS)
#: Key field that Debezium's ByLogicalTableRouter adds when it routes several tables to a topic.
_PHYSICAL_TABLE = "__dbz__physicalTableIdentifier"


def record_key_names(frame: DataFrame) -> list[str]:
    """Return the columns of the records' own key; empty if the transport or the table has no keys."""
    return list(getattr(frame.schema[E.KEY].dataType, "names", ())) if E.KEY in frame.columns else []


def source_table(fields: Collection[str], field: Callable[[str], Column], key: Collection[str]) -> Column | None:
    """Return ``db.schema.table`` of a source block with ``fields``; None without a table, or if the key contains it."""
    return None if _PHYSICAL_TABLE in key else _join_names(".", SOURCE_TABLE_FIELDS, fields, field)


def source_path(fields: Collection[str], field: Callable[[str], Column]) -> Column | None:
    """Return ``server/db/schema/table`` of a source block with ``fields``; None without a table."""
    return _join_names("/", SOURCE_PATH_FIELDS, fields, field)


def _join_names(
    separator: str, names: Collection[str], fields: Collection[str], field: Callable[[str], Column]
) -> Column | None:
    from pyspark.sql import functions as F

    if "table" not in fields:
        return None
    known = [field(name).cast("string") for name in names if name in fields]
    return F.when(field("table").isNotNull(), F.concat_ws(separator, *known))


def spell_key_columns(frame: DataFrame, key: Collection[str], columns: Collection[str]) -> list[str]:
    """Return a rule's existing key columns in the spelling of ``columns``."""
    spellings: dict[str, str] = {}
    for name, written in match_names(frame.sparkSession, key, columns).items():
        spellings.setdefault(written, name)
    return [spellings[name] for name in key if name in spellings]


def find_key_columns(topic: str, frame: DataFrame, key: Collection[str], columns: Collection[str]) -> list[str]:
    """Return a rule's key columns in the spelling of ``columns``. DataError for a missing one."""
    for name in key:
        if not spell_key_columns(frame, [name], columns):
            raise DataError(f"no such key column: {name!r}", where=f"topic {topic}", fix=did_you_mean(name, columns))
    return spell_key_columns(frame, key, columns)


def fill_key(frame: DataFrame, columns: Mapping[str, Column]) -> Column:
    """Return the records' own key. A record without one gets the ``columns`` of its value if they equal the key's columns."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import NumericType

    own: Any = frame.schema[E.KEY].dataType
    spellings = match_names(frame.sparkSession, columns, own.names)
    if len(columns) != len(own.names) or spellings.keys() != set(own.names):
        return F.col(E.KEY)
    values = frame.select(*[columns[spellings[field.name]].alias(field.name) for field in own]).schema
    for field in own:
        other = values[field.name].dataType
        if other != field.dataType and not (isinstance(other, NumericType) and isinstance(field.dataType, NumericType)):
            return F.col(E.KEY)
    cells = [columns[spellings[field.name]].cast(field.dataType).alias(field.name) for field in own]
    return F.coalesce(F.col(E.KEY), F.when(F.col(E.VALUE).isNotNull(), F.struct(*cells)))


def drop_tombstones_without_key(frame: DataFrame) -> DataFrame:
    """Return the frame without tombstones that lack a complete key, which identify no row."""
    from pyspark.sql import functions as F

    in_key = [F.col(E.KEY).getField(name).isNotNull() for name in record_key_names(frame)] or [F.lit(False)]
    has_key = reduce(lambda a, b: a & b, in_key)
    return frame.where(F.col(E.VALUE).isNotNull() | F.col(E.ERROR).isNotNull() | has_key)


def with_tombstones(position: Column, is_tombstone: Column) -> Column:
    """Return the position of a record; for a tombstone, the position of its place."""
    from pyspark.sql import functions as F

    # A tombstone's position is the lower one. `when` would compute subexpressions of a position in both branches.
    return F.least(position, F.when(is_tombstone, tombstone_position(F.col(E.PLACE))))


def key_change_columns(frame: DataFrame, position: Column, *, has_unavailable: bool) -> list[Column]:
    """Return NEW_KEY and KEY_CHANGE_POSITION, from the header of a delete that is half of a key change.

    Empty if rows have no unavailable values (``has_unavailable``), because no value has to be copied to the new key. Connect
    writes these headers as plain JSON in every format. Keys whose JSON differs from the record's, such as times and bytes,
    are ignored.
    """
    from pyspark.sql import functions as F, types as T

    names = record_key_names(frame)
    if not has_unavailable or not names or E.HEADERS not in frame.columns:
        return []
    key_type: Any = frame.schema[E.KEY].dataType
    plain = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.BooleanType)
    if not all(isinstance(field.dataType, plain) for field in key_type):
        return []
    new_key = F.from_json(header_value(_NEW_KEY).cast("string"), key_type)
    is_whole = reduce(lambda a, b: a & b, [new_key.getField(name).isNotNull() for name in names])
    is_change = is_whole & F.col(E.VALUE).isNotNull()  # the delete's tombstone has the same headers
    return [F.when(is_change, new_key).alias(C.NEW_KEY), position.alias(C.KEY_CHANGE_POSITION)]
