"""How an Iceberg table has to change to hold rows of another schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.sdk import DataError, is_same_type, promote, quote_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


class SchemaUpdate:
    """What ``ALTER TABLE`` has to do before a table can hold rows of another schema.

    ``sql`` gives a type as SQL writes it.
    """

    def __init__(self, sql: Callable[[DataType], str]) -> None:
        self._sql = sql
        self._new_columns: list[str] = []
        self._wider_columns: list[str] = []

    @property
    def clauses(self) -> list[str]:
        """One ``ALTER TABLE`` each."""
        additions = [f"ADD COLUMNS ({', '.join(self._new_columns)})"] if self._new_columns else []
        return [*additions, *self._wider_columns]

    def union_by_name(self, stored: StructType, incoming: StructType, path: tuple[str, ...] = ()) -> StructType:
        """The schema that holds the table's rows and those that come.

        DataError for a type that Iceberg cannot widen to; ``path`` is the column that the two are of.
        """
        from pyspark.sql.types import StructField, StructType

        new = {field.name: field.dataType for field in incoming}
        fields = []
        for field in stored:
            other = new.pop(field.name, None)
            data_type = field.dataType if other is None else self._widen(field.dataType, other, (*path, field.name))
            fields.append(StructField(field.name, data_type))
        for name, data_type in new.items():
            self._new_columns.append(f"{_quote_path((*path, name))} {self._sql(data_type)}")
            fields.append(StructField(name, data_type))
        return StructType(fields)

    def _widen(self, stored: DataType, incoming: DataType, path: tuple[str, ...]) -> DataType:
        from pyspark.sql import types as T

        if isinstance(stored, T.StructType) and isinstance(incoming, T.StructType):
            return self.union_by_name(stored, incoming, path)
        if isinstance(stored, T.ArrayType) and isinstance(incoming, T.ArrayType):
            return T.ArrayType(self._widen(stored.elementType, incoming.elementType, (*path, "element")))
        if (
            isinstance(stored, T.MapType)
            and isinstance(incoming, T.MapType)
            and is_same_type(stored.keyType, incoming.keyType)
        ):
            return T.MapType(stored.keyType, self._widen(stored.valueType, incoming.valueType, (*path, "value")))
        try:
            wide = promote(stored, incoming)
        except DataError:
            wide = None
        if wide is not None and is_same_type(wide, stored):
            return stored
        if wide is None or not _can_widen(stored, wide):
            raise DataError(
                f"column {'.'.join(path)!r} comes as {incoming.simpleString()} and the table has {stored.simpleString()}",
                fix="change the table's type, or cast the column where the events are made",
            )
        self._wider_columns.append(f"ALTER COLUMN {_quote_path(path)} TYPE {self._sql(wide)}")
        return wide


def _can_widen(stored: DataType, wide: DataType) -> bool:
    """Iceberg's rules for a column that has data."""
    from pyspark.sql import types as T

    if isinstance(stored, T.DecimalType) and isinstance(wide, T.DecimalType):
        return stored.scale == wide.scale
    return (stored, wide) in ((T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType()))


def _quote_path(path: tuple[str, ...]) -> str:
    return ".".join(quote_name(part) for part in path)
