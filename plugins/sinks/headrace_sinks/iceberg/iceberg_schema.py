"""Schema changes of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.columns import quote_name
from headrace.sdk.schemas import is_same_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    #: Translates a type into SQL.
    TypeToSql = Callable[[DataType], str]
    Path = tuple[str, ...]


def check_paths(schema: StructType) -> None:
    """Raise DataError for a column with the same path as a nested field, which Iceberg does not distinguish."""
    paths = set[str]()
    for path in _list_paths(schema):
        if path in paths:
            raise DataError(
                f"Iceberg does not distinguish the column {path!r} from the field {path.rpartition('.')[2]!r} of "
                f"{path.rpartition('.')[0]!r}",
                fix="rename one of them with `rename` under `transforms:`",
            )
        paths.add(path)


def _list_paths(data_type: DataType, path: str = "") -> Iterator[str]:
    from pyspark.sql import types as T

    inner: dict[str, DataType] = {}
    if isinstance(data_type, T.StructType):
        inner = {field.name: field.dataType for field in data_type}
    elif isinstance(data_type, T.ArrayType):
        inner = {"element": data_type.elementType}
    elif isinstance(data_type, T.MapType):
        inner = {"key": data_type.keyType, "value": data_type.valueType}
    for name, kind in inner.items():
        yield path + name
        yield from _list_paths(kind, f"{path}{name}.")


def build_alter_clauses(stored: StructType, target: StructType, to_sql: TypeToSql) -> list[str]:
    """Build the clauses of ``ALTER TABLE`` that change a table from the stored schema to the target schema."""
    changes = list(_find_changes(stored, target, ()))
    new = [f"{_quote_path(path)} {to_sql(kind)}" for path, kind, is_new in changes if is_new]
    wider = [f"ALTER COLUMN {_quote_path(path)} TYPE {to_sql(kind)}" for path, kind, is_new in changes if not is_new]
    return [*([f"ADD COLUMNS ({', '.join(new)})"] if new else []), *wider]


def can_widen(stored: DataType, wide: DataType, path: Path) -> bool:  # noqa: ARG001 - the rules hold for nested fields too
    """Return whether Iceberg can widen a column that has data to this type."""
    from pyspark.sql import types as T

    if isinstance(stored, T.DecimalType) and isinstance(wide, T.DecimalType):
        return stored.scale == wide.scale
    return (stored, wide) in ((T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType()))


def _find_changes(stored: DataType, target: DataType, path: Path) -> Iterator[tuple[Path, DataType, bool]]:
    """Find the columns to change: path, type, and whether the column is new."""
    from pyspark.sql import types as T

    if is_same_type(stored, target):
        return
    if isinstance(stored, T.StructType) and isinstance(target, T.StructType):
        known = {field.name: field.dataType for field in stored}
        for field in target:
            if field.name in known:
                yield from _find_changes(known[field.name], field.dataType, (*path, field.name))
            else:
                yield (*path, field.name), field.dataType, True
    elif isinstance(stored, T.ArrayType) and isinstance(target, T.ArrayType):
        yield from _find_changes(stored.elementType, target.elementType, (*path, "element"))
    elif isinstance(stored, T.MapType) and isinstance(target, T.MapType):
        yield from _find_changes(stored.valueType, target.valueType, (*path, "value"))
    else:
        yield path, target, False


def _quote_path(path: Path) -> str:
    return ".".join(quote_name(part) for part in path)
