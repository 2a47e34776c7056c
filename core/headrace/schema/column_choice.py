"""Choice between two columns by a condition, with a type for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.schema.promotion import promote

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    #: Column with its type; without a type, the column does not exist.
    TypedColumn = tuple[Column, DataType | None]


def choose_fields(condition: Column, new: TypedColumn, old: TypedColumn) -> Column:
    """Return the new struct where the condition is true, otherwise the old one, field by field. A null struct stays null."""
    from pyspark.sql import functions as F

    (new_column, new_type), (old_column, old_type) = new, old
    new_types, old_types = ({f.name: f.dataType for f in kind} for kind in (new_type, old_type))  # type: ignore[union-attr]
    cells = [
        choose_column(
            condition,
            field,
            (new_column.getField(field), new_types.get(field)),
            (old_column.getField(field), old_types.get(field)),
        ).alias(field)
        for field in dict.fromkeys([*new_types, *old_types])
    ]
    return F.when(old_column.isNotNull(), F.struct(*cells))


def choose_column(condition: Column, name: str, new: TypedColumn, old: TypedColumn) -> Column:
    """Return the new column where the condition is true, otherwise the old one. DataError if the types have no common one."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    (new_column, new_type), (old_column, old_type) = new, old
    if new_type is None or old_type is None:
        return F.when(~condition, old_column) if new_type is None else F.when(condition, new_column)
    names = {new_type.typeName(), old_type.typeName()}
    is_text = new_type != old_type and "string" in names and names.isdisjoint(("struct", "array", "map", "binary"))
    kind = StringType() if is_text else promote(old_type, new_type, name)
    return F.when(condition, new_column.cast(kind)).otherwise(old_column.cast(kind))
