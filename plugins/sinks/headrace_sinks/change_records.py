"""Rows as records of topics and streams: keys, values, and the order of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.sdk import Table, changes as C
from headrace.sdk.changes import DELETED, KEY, POSITION
from headrace.sdk.columns import quote_name
from headrace_sinks.placeholders import write_placeholders

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Part = Literal["key", "value"]
#: Order of the records of a key: as the source's partition has them, then as a transform made them of one record.
_ORDER = (C.PARTITION, C.OFFSET, POSITION)


@dataclass(frozen=True)
class RecordFormat:
    """Format of records."""

    #: Part and struct of a record → its bytes or its text; null stays null.
    encode: Callable[[Part, Column, StructType], Column]
    #: Bytes in place of values that change events omit.
    placeholder: bytes
    #: Keys are those of the source's records.
    has_raw_keys: bool = False
    has_headers: bool = False
    #: Tombstones of the source are written. Deletes always become tombstones.
    has_tombstones: bool = True


def list_columns(*, has_raw_keys: bool = False, has_headers: bool = False) -> list[str]:
    """List the record columns that a sink requires."""
    columns = [C.PARTITION, C.OFFSET, C.TOMBSTONE, C.RAW_KEY if has_raw_keys else KEY]
    return [*columns, C.HEADERS] if has_headers else columns


def make_records(rows: DataFrame, table: Table, form: RecordFormat) -> DataFrame:
    """Convert rows to records: key, value, and headers if there are any.

    Those of a key are in one partition of the result, in order.
    """
    from pyspark.sql import functions as F

    rows = write_placeholders(rows, form.placeholder)
    if not form.has_tombstones and C.TOMBSTONE in rows.columns:
        rows = rows.where(~F.col(C.TOMBSTONE))
    key, value = _encode_key(rows, table, form), _encode_value(rows, form)
    headers = [F.col(C.HEADERS).alias("headers")] if C.HEADERS in rows.columns and form.has_headers else []
    order = [name for name in _ORDER if name in rows.columns]
    # Records without a key have no order. All in one task would be slow.
    spread = F.coalesce(key.cast("binary"), F.col(order[0]).cast("string").cast("binary"))
    # Records are larger than rows, so rows are moved and sorted.
    return (
        rows.repartition(spread).sortWithinPartitions(*order).select(key.alias("key"), value.alias("value"), *headers)
    )


def _encode_key(rows: DataFrame, table: Table, form: RecordFormat) -> Column:
    """Build the key; null for records without one."""
    from pyspark.sql import functions as F, types as T

    if form.has_raw_keys:
        return F.col(C.RAW_KEY) if C.RAW_KEY in rows.columns else F.lit(None).cast("binary")
    if KEY in rows.columns:
        key = F.col(KEY)
    elif table.key:  # rows that have no records, such as those of a view
        key = F.struct(*[F.col(quote_name(name)) for name in table.key])
    else:
        return F.lit(None).cast("string")
    key_type = rows.select(key.alias(KEY)).schema[KEY].dataType
    assert isinstance(key_type, T.StructType), "a key has columns"
    return form.encode("key", key, key_type)


def _encode_value(rows: DataFrame, form: RecordFormat) -> Column:
    """Build the value; null for deletes and tombstones."""
    from pyspark.sql import functions as F, types as T

    others = {POSITION, DELETED, *list_columns(has_raw_keys=form.has_raw_keys, has_headers=form.has_headers)}
    fields = [field for field in rows.schema if field.name not in others]
    if not fields:  # a batch of tombstones
        return F.lit(None).cast("string")
    row = F.struct(*[F.col(quote_name(field.name)) for field in fields])
    is_removed = F.coalesce(F.col(DELETED), F.lit(False))
    if C.TOMBSTONE in rows.columns:
        is_removed |= F.col(C.TOMBSTONE)
    return F.when(~is_removed, form.encode("value", row, T.StructType(fields)))
