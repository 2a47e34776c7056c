"""Text forms of arrays of PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace_verify.source_table import SourceColumn
from headrace_verify.stored_texts import SparkSql, join_items
from headrace_verify.value_texts import NULL, TextForm, find_postgresql_scalar, write_text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: Prefix of the names of array types.
_ARRAY = "_"
#: Item of an array, and its place.
_ITEM, _PLACE = "u.v", "u.n"


def find_postgresql_form(column: SourceColumn, stored: DataType) -> TextForm | None:
    """Return the form of a column of PostgreSQL."""
    from pyspark.sql.types import ArrayType

    if not (column.kind.startswith(_ARRAY) and isinstance(stored, ArrayType)):
        return find_postgresql_scalar(column, stored)
    item = find_postgresql_scalar(replace(column, kind=column.kind.removeprefix(_ARRAY)), stored.elementType)
    return None if item is None else _array_form(item)


def _array_form(item: TextForm) -> TextForm:
    text = item.source.replace("{c}", _ITEM)
    if item.is_free:
        text = f"octet_length({text}) || ':' || {text}"
    items = f"string_agg(coalesce({text}, '{NULL}'), ',' order by {_PLACE})"
    joined = f"select '[' || coalesce({items}, '') || ']' from unnest({{c}}) with ordinality as u(v, n)"
    spark = join_items("{c}", "e", write_text(SparkSql(), item.spark, "e", is_free=item.is_free))
    return TextForm(f"case when {{c}} is not null then ({joined}) end", spark, is_free=True)
