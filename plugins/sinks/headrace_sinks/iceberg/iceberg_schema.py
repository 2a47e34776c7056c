"""Schema changes of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.changes import DELETED
from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import full_text, text_after_raised
from headrace_sinks.stored_types import find_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    #: Translates a type into SQL.
    TypeToSql = Callable[[DataType], str]
    Path = tuple[str, ...]

#: Text of the error of a task that finds a null in a NOT NULL column; the name of the column follows.
_NULL = "null in the NOT NULL column "


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
    changes = list(find_changes(stored, target))
    new = [f"{_quote_path(path)} {to_sql(kind)}" for path, kind, is_new in changes if is_new]
    wider = [f"ALTER COLUMN {_quote_path(path)} TYPE {to_sql(kind)}" for path, kind, is_new in changes if not is_new]
    return [*([f"ADD COLUMNS ({', '.join(new)})"] if new else []), *wider]


def guard_required(rows: DataFrame, stored: StructType, *, has_deletes: bool) -> DataFrame:
    """Return rows that fail their task if a NOT NULL column is null, which Iceberg reports without its name.

    ``has_deletes``: rows with DELETED are deletes, which only need their key.
    """
    from pyspark.sql import functions as F

    guarded = {}
    for field in stored:
        if not field.nullable and field.name in rows.columns:
            column, error = F.col(quote_name(field.name)), F.raise_error(F.lit(f"{_NULL}{field.name}"))
            is_allowed = column.isNotNull() | (F.col(DELETED) if has_deletes else F.lit(False))
            guarded[field.name] = F.when(is_allowed, column).otherwise(error.cast(field.dataType))
    return rows.withColumns(guarded) if guarded else rows


def explain_null(error: BaseException) -> DataError | None:
    """Explain the error of ``guard_required``; None for any other error."""
    name = (text_after_raised(_NULL, full_text(error)) or "").partition("\n")[0].strip()
    if not name:
        return None
    return DataError(
        f"the table's column {name!r} is NOT NULL, and a row of the batch has no value",
        fix=f"run `ALTER TABLE … ALTER COLUMN {name} DROP NOT NULL`, or correct the row at the source",
    )


def can_widen(stored: DataType, wide: DataType, path: Path) -> bool:  # noqa: ARG001 - the rules hold for nested fields too
    """Return whether Iceberg can widen a column that has data to this type."""
    from pyspark.sql import types as T

    if isinstance(stored, T.DecimalType) and isinstance(wide, T.DecimalType):
        return stored.scale == wide.scale
    return (stored, wide) in ((T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType()))


def _quote_path(path: Path) -> str:
    return ".".join(quote_name(part) for part in path)
