"""Compatibility of changes with the types of their stored table."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.schema.promotion import promote
from headrace.sdk.changes import ERROR, Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import fold_name, quote_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def reject_incompatible(
    changes: Changes, table: StructType, *, keeps_values: bool = False, found: dict[str, str] | None = None
) -> Changes:
    """Reject changes with a value of a type to which the table's column cannot be widened, as SCHEMA_INCOMPATIBLE.

    Such a column is null in the table's type, so that the other rows fit, unless the changes are read for dead letters
    (``keeps_values``). ``found`` notes the columns and the types of their values.
    """
    from pyspark.sql import functions as F

    if changes.envelope:
        return changes
    types = {fold_name(field.name): field.dataType for field in table}
    data_types = {
        name: (types.get(fold_name(name)), changes.frame.schema[name].dataType) for name in changes.event_columns
    }
    wrong = {
        name: table_type
        for name, (table_type, change_type) in data_types.items()
        if table_type is not None and not _fits(table_type, change_type)
    }
    if not wrong:
        return changes
    if found is not None:
        found |= {name: changes.frame.schema[name].dataType.simpleString() for name in wrong if name not in found}
    has_value = reduce(lambda a, b: a | b, [F.col(quote_name(name)).isNotNull() for name in wrong])
    error = F.coalesce(F.col(ERROR), F.when(has_value, F.lit(RejectReason.SCHEMA_INCOMPATIBLE)))
    frame = changes.frame.withColumn(ERROR, error)
    if keeps_values:
        return replace(changes, frame=frame)
    return replace(changes, frame=frame.withColumns({n: F.lit(None).cast(kind) for n, kind in wrong.items()}))


def _fits(table_type: DataType, change_type: DataType) -> bool:
    try:
        promote(table_type, change_type)
    except DataError:
        return False
    return True
