"""How an Iceberg table has to change to hold rows of another schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.sdk import DataError, is_same_type, promote, quote_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

#: A type as SQL writes it.
Sql = Callable[["DataType"], str]


@dataclass
class Growth:
    """What ``ALTER TABLE`` has to do."""

    added: list[str] = field(default_factory=list)
    retyped: list[str] = field(default_factory=list)

    @property
    def clauses(self) -> list[str]:
        return [*([f"ADD COLUMNS ({', '.join(self.added)})"] if self.added else []), *self.retyped]


def grown(have: StructType, come: StructType, sql: Sql) -> tuple[StructType, Growth]:
    """The schema that holds both, and how the table gets it. DataError for a type that Iceberg cannot widen."""
    growth = Growth()
    return _struct(have, come, (), sql, growth), growth


def _struct(have: StructType, come: StructType, path: tuple[str, ...], sql: Sql, growth: Growth) -> StructType:
    from pyspark.sql.types import StructField, StructType

    theirs = {f.name: f.dataType for f in come}
    fields = []
    for known in have:
        other = theirs.pop(known.name, None)
        kind = known.dataType if other is None else _kind(known.dataType, other, (*path, known.name), sql, growth)
        fields.append(StructField(known.name, kind))
    for name, kind in theirs.items():
        growth.added.append(f"{_dotted((*path, name))} {sql(kind)}")
        fields.append(StructField(name, kind))
    return StructType(fields)


def _kind(have: DataType, come: DataType, path: tuple[str, ...], sql: Sql, growth: Growth) -> DataType:
    from pyspark.sql import types as T

    if isinstance(have, T.StructType) and isinstance(come, T.StructType):
        return _struct(have, come, path, sql, growth)
    if isinstance(have, T.ArrayType) and isinstance(come, T.ArrayType):
        return T.ArrayType(_kind(have.elementType, come.elementType, (*path, "element"), sql, growth))
    if isinstance(have, T.MapType) and isinstance(come, T.MapType) and is_same_type(have.keyType, come.keyType):
        return T.MapType(have.keyType, _kind(have.valueType, come.valueType, (*path, "value"), sql, growth))
    try:
        both = promote(have, come)
    except DataError:
        both = None
    if both is not None and is_same_type(both, have):
        return have
    if both is None or not _widens(have, both):
        raise DataError(
            f"column {'.'.join(path)!r} comes as {come.simpleString()} and the table has {have.simpleString()}",
            fix="change the table's type, or cast the column where the events are made",
        )
    growth.retyped.append(f"ALTER COLUMN {_dotted(path)} TYPE {sql(both)}")
    return both


def _widens(have: DataType, wide: DataType) -> bool:
    """Iceberg's rules for a column that has data."""
    from pyspark.sql import types as T

    if isinstance(have, T.DecimalType) and isinstance(wide, T.DecimalType):
        return have.scale == wide.scale
    return (have, wide) in ((T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType()))


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(quote_name(part) for part in path)
