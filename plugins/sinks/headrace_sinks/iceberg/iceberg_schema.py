"""How an Iceberg table has to change to hold rows of another schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name
from headrace.sdk.schemas import is_same_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    #: A type as SQL writes it.
    TypeAsSql = Callable[[DataType], str]
    Path = tuple[str, ...]


def alter_clauses(stored: StructType, wanted: StructType, sql: TypeAsSql) -> list[str]:
    """What ``ALTER TABLE`` has to do, one clause each, to make a table of ``stored`` one of ``wanted``."""
    changes = list(_changes(stored, wanted, ()))
    new = [f"{_quote_path(path)} {sql(kind)}" for path, kind, is_new in changes if is_new]
    wider = [f"ALTER COLUMN {_quote_path(path)} TYPE {sql(kind)}" for path, kind, is_new in changes if not is_new]
    return [*([f"ADD COLUMNS ({', '.join(new)})"] if new else []), *wider]


def can_widen(stored: DataType, wide: DataType, path: Path) -> bool:  # noqa: ARG001 - nested or not, it is the same
    """Iceberg's rules for a column that has data."""
    from pyspark.sql import types as T

    if isinstance(stored, T.DecimalType) and isinstance(wide, T.DecimalType):
        return stored.scale == wide.scale
    return (stored, wide) in ((T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType()))


def _changes(stored: DataType, wanted: DataType, path: Path) -> Iterator[tuple[Path, DataType, bool]]:
    """Path, type, and whether it is a new column and not a wider one."""
    from pyspark.sql import types as T

    if is_same_type(stored, wanted):
        return
    if isinstance(stored, T.StructType) and isinstance(wanted, T.StructType):
        known = {field.name: field.dataType for field in stored}
        for field in wanted:
            if field.name in known:
                yield from _changes(known[field.name], field.dataType, (*path, field.name))
            else:
                yield (*path, field.name), field.dataType, True
    elif isinstance(stored, T.ArrayType) and isinstance(wanted, T.ArrayType):
        yield from _changes(stored.elementType, wanted.elementType, (*path, "element"))
    elif isinstance(stored, T.MapType) and isinstance(wanted, T.MapType):
        yield from _changes(stored.valueType, wanted.valueType, (*path, "value"))
    else:
        yield path, wanted, False


def _quote_path(path: Path) -> str:
    return ".".join(quote_name(part) for part in path)
