"""headrace's columns that every dialect takes from a record itself: where it is from, its key, and its headers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import changes as C, events as E, header_value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

#: The header of a delete that is one half of a change of the key: the other half's.
_NEW_KEY = "__debezium.newkey"


def record_columns(topic: str, frame: DataFrame) -> list[Column]:
    """The record as it came and where from, for dead letters."""
    from pyspark.sql import functions as F

    optional = {E.RAW_KEY: C.RAW_KEY, E.HEADERS: C.HEADERS}
    return [
        *[F.col(name).alias(column) for name, column in optional.items() if name in frame.columns],
        F.lit(topic).alias(C.TOPIC),
        F.col(E.PARTITION).alias(C.PARTITION),
        F.col(E.OFFSET).alias(C.OFFSET),
        F.col(E.FILE).alias(C.FILE),
        F.col(E.PLACE).alias(C.PLACE),
        F.col(E.RAW).alias(C.RAW),
    ]


def record_key_names(frame: DataFrame) -> list[str]:
    """The columns of the records' own key; none where the transport has no keys, or the table has none."""
    return list(getattr(frame.schema[E.KEY].dataType, "names", ())) if E.KEY in frame.columns else []


def fill_key(frame: DataFrame, columns: Mapping[str, tuple[Column, DataType]]) -> Column:
    """The records' own key; that of a record without one is the ``columns`` of its value, where these are the same ones."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import NumericType

    own: Any = frame.schema[E.KEY].dataType
    if set(columns) != set(own.names):
        return F.col(E.KEY)
    for field in own:
        other = columns[field.name][1]
        if other != field.dataType and not (isinstance(other, NumericType) and isinstance(field.dataType, NumericType)):
            return F.col(E.KEY)
    values = [columns[field.name][0].cast(field.dataType).alias(field.name) for field in own]
    return F.coalesce(F.col(E.KEY), F.when(F.col(E.VALUE).isNotNull(), F.struct(*values)))


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
    return [F.when(is_whole, new_key).alias(C.NEW_KEY), position.alias(C.KEY_CHANGE_POSITION)]
