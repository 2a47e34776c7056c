"""headrace's columns that every dialect takes from a record itself: where it is from, its key, and its headers."""

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

#: The header of a delete that is one half of a change of the key: the other half's.
_NEW_KEY = "__debezium.newkey"
#: What a source block calls the table, and what it is in.
SOURCE_TABLE_FIELDS = ("db", "schema", "table")
#: What Debezium's ByLogicalTableRouter adds to the keys of a topic that it leads several tables to.
_PHYSICAL_TABLE = "__dbz__physicalTableIdentifier"


def record_key_names(frame: DataFrame) -> list[str]:
    """The columns of the records' own key; none where the transport has no keys, or the table has none."""
    return list(getattr(frame.schema[E.KEY].dataType, "names", ())) if E.KEY in frame.columns else []


def source_table(fields: Collection[str], field: Callable[[str], Column], key: Collection[str]) -> Column | None:
    """``db.schema.table`` of a source block that has ``fields``; None without a table, or where the key has it."""
    from pyspark.sql import functions as F

    if "table" not in fields or _PHYSICAL_TABLE in key:
        return None
    names = [field(name).cast("string") for name in SOURCE_TABLE_FIELDS if name in fields]
    return F.when(field("table").isNotNull(), F.concat_ws(".", *names))


def spell_key_columns(frame: DataFrame, key: Collection[str], columns: Collection[str]) -> list[str]:
    """The columns that a rule names as the key, as they are spelt among ``columns``, where they are there."""
    spellings: dict[str, str] = {}
    for name, written in match_names(frame.sparkSession, key, columns).items():
        spellings.setdefault(written, name)
    return [spellings[name] for name in key if name in spellings]


def find_key_columns(topic: str, frame: DataFrame, key: Collection[str], columns: Collection[str]) -> list[str]:
    """The columns that a rule names as the key, as they are spelt among ``columns``. DataError for one that is not there."""
    for name in key:
        if not spell_key_columns(frame, [name], columns):
            raise DataError(f"there is no key column {name!r}", where=f"topic {topic}", fix=did_you_mean(name, columns))
    return spell_key_columns(frame, key, columns)


def fill_key(frame: DataFrame, columns: Mapping[str, Column]) -> Column:
    """The records' own key; that of a record without one is the ``columns`` of its value, where these are the same ones."""
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
    """The records without those that have neither value nor error, nor a whole key: they say of no row that it is gone."""
    from pyspark.sql import functions as F

    in_key = [F.col(E.KEY).getField(name).isNotNull() for name in record_key_names(frame)] or [F.lit(False)]
    has_key = reduce(lambda a, b: a & b, in_key)
    return frame.where(F.col(E.VALUE).isNotNull() | F.col(E.ERROR).isNotNull() | has_key)


def with_tombstones(position: Column, is_tombstone: Column) -> Column:
    """The position of a record; where it is a tombstone, that of its place."""
    from pyspark.sql import functions as F

    # A tombstone's is the lower one. In the branches of a `when` Spark would compute twice what a position has twice.
    return F.least(position, F.when(is_tombstone, tombstone_position(F.col(E.PLACE))))


def key_change_columns(frame: DataFrame, position: Column, *, has_unavailable: bool) -> list[Column]:
    """NEW_KEY and KEY_CHANGE_POSITION, from the header of a delete that a change of the key made.

    None where rows never leave values out (``has_unavailable``): nothing is to be carried to the new key then. Connect
    writes such headers as plain JSON, whatever the records' own format. A key that reads otherwise there than in the
    record, a time or bytes, is left alone.
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
    is_change = is_whole & F.col(E.VALUE).isNotNull()  # the delete's tombstone has its headers too
    return [F.when(is_change, new_key).alias(C.NEW_KEY), position.alias(C.KEY_CHANGE_POSITION)]
