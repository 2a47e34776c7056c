"""Parts of a topic's changes that are transformed in different ways, and their union. Only dead letters are read from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.read.tagged_columns import list_names
from headrace.errors import ConfigError, DataError
from headrace.schema.projection import is_same_type
from headrace.sdk.changes import (
    DELETED,
    ERROR,
    FILE,
    OFFSET,
    PARTITION,
    PLACE,
    POSITION,
    TIMESTAMP,
    TOPIC,
    Changes,
)
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

#: Columns of a change that say where its record is and why it is rejected.
_PLACES = {TOPIC, PARTITION, OFFSET, FILE, PLACE, TIMESTAMP, POSITION, DELETED, ERROR}


def transform_parts(
    plan: Plan, changes: Changes, transform: Callable[[Changes], Changes], *, has_others: bool
) -> tuple[Changes, Sequence[str]]:
    """Return the transformed changes of a topic, and the key columns of its own table. ``has_others``: it may have changes of other tables."""
    own, *others = _split_other_tables(plan, changes) if has_others else [changes]
    own = transform(own)
    return _union_parts([own, *(_transform_or_withhold(part, transform) for part in others)]), own.key_columns


def _split_other_tables(plan: Plan, changes: Changes) -> list[Changes]:
    """Separate changes of other tables, to which every transform that hides values applies."""
    from pyspark.sql import functions as F

    hiding = [transform for transform in plan.transforms if transform.hides_values]
    names = list_names(changes) if plan.tags else []
    has_equal_tags = not hiding or plan.tags.find(None, names) == plan.tags.find(changes.table, names)
    if has_equal_tags and all(
        t.applies_to(changes.table) and set(t.reads_in(None)) == set(t.reads_in(changes.table)) for t in hiding
    ):
        return [changes]
    is_other = F.coalesce(F.col(ERROR) == RejectReason.OTHER_TABLE, F.lit(False))
    others = replace(changes, frame=changes.frame.where(is_other), table=None)
    return [replace(changes, frame=changes.frame.where(~is_other)), others]


def _transform_or_withhold(others: Changes, transform: Callable[[Changes], Changes]) -> Changes:
    """Return the transformed changes of other tables; without values if a transform that hides some does not fit them.

    Such a transform may be limited to a table with other columns. The table of the topic does not fail because of it.
    """
    try:
        return transform(others)
    except (ConfigError, DataError):
        kept = [name for name in others.frame.columns if name in _PLACES]
        return replace(others, frame=others.frame.select(*kept))


def _union_parts(parts: Sequence[Changes]) -> Changes:
    """Return the union of the parts. A column whose type differs between parts, because only one masks it, becomes a string."""
    if len(parts) == 1:
        return parts[0]
    types: dict[str, DataType] = {}
    for field in (field for part in parts for field in part.frame.schema):
        types[field.name] = _common_type(types.get(field.name, field.dataType), field.dataType)
    frames = [_convert(part, types).frame for part in parts]
    return replace(parts[0], frame=reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames))


def _common_type(first: DataType, second: DataType) -> DataType:
    """Return a type for the values of both: string, or a struct of such types if both are structs."""
    from pyspark.sql.types import StringType, StructField, StructType

    if is_same_type(first, second):
        return first
    if not (isinstance(first, StructType) and isinstance(second, StructType)):
        return StringType()
    types = {field.name: field.dataType for field in first}
    for field in second:
        types[field.name] = _common_type(types.get(field.name, field.dataType), field.dataType)
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


def _convert(part: Changes, types: dict[str, DataType]) -> Changes:
    from pyspark.sql import functions as F

    changed = {
        field.name: _as_text(F.col(quote_name(field.name)), field.dataType, types[field.name])
        for field in part.frame.schema
        if not is_same_type(field.dataType, types[field.name])
    }
    return replace(part, frame=part.frame.withColumns(changed)) if changed else part


def _as_text(column: Column, have: DataType, want: DataType) -> Column:
    from pyspark.sql import functions as F, types as T

    if is_same_type(have, want):
        return column
    if isinstance(want, T.StructType) and isinstance(have, T.StructType):
        cells = {field.name: F.lit(None).cast(field.dataType) for field in want}
        for field in have:
            cells[field.name] = _as_text(column.getField(field.name), field.dataType, want[field.name].dataType)
        return F.when(column.isNotNull(), F.struct(*[cell.alias(name) for name, cell in cells.items()]))
    if isinstance(have, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(column)
    return F.base64(column) if isinstance(have, T.BinaryType) else column.cast("string")
