"""Reserved column names of headrace and of table formats, compared without case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.sdk.changes import PREFIX
from headrace.spark.columns import name_fold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField

    from headrace.sdk.sink import Sink


def reject_own_names(columns: Iterable[str], topic: str, *, envelope: bool) -> None:
    """Raise DataError for a column of the events that has a name of headrace's own columns.

    ``envelope``: it is in a row image, where ``rename`` can still rename it.
    """
    name = next((column for column in columns if column.lower().startswith(PREFIX)), None)
    if name is None:
        return
    new_name = name[len(PREFIX) :] or "column"
    with_rename = f"put `- rename: {{columns: {{{name}: {new_name}}}}}` before `unwrap` under `transforms:`"
    raise DataError(
        f"the column name {name!r} is reserved: the prefix {PREFIX!r} belongs to headrace",
        where=f"topic {topic}",
        fix=with_rename if envelope else "rename or remove it in the producer of the events",
    )


def reject_empty_structs(columns: Iterable[StructField], table: str) -> None:
    """Raise DataError for a column that is or contains a struct without fields: no table format can store it."""
    path = _find_empty_struct(columns)
    if path:
        raise DataError(
            f"the column {'.'.join(path)!r} is a struct without fields, which no table can store",
            where=f"table {table}",
            fix="exclude the topic, or remove the field in the producer of the events",
        )


def _find_empty_struct(fields: Iterable[StructField]) -> tuple[str, ...] | None:
    """Return the path of the first struct without fields; None without one."""
    for field in fields:
        inner: DataType = field.dataType
        while inner.typeName() in ("array", "map"):
            inner = getattr(inner, "elementType" if inner.typeName() == "array" else "valueType")
        if (children := getattr(inner, "fields", None)) is not None:
            path = _find_empty_struct(children) if children else ()
            if path is not None:
                return (field.name, *path)
    return None


def reject_lookalikes(data_type: DataType, topic: str, session: SparkSession) -> None:
    """Raise DataError for two names in one struct that the session does not distinguish."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        fold, spellings = name_fold(session), dict[str, str]()
        for field in data_type:
            other = spellings.setdefault(fold(field.name), field.name)
            if other != field.name:
                raise DataError(
                    f"the names {other!r} and {field.name!r} differ only by case, and tables do not distinguish them",
                    where=f"topic {topic}",
                    fix="rename one of them at the source, or exclude it in the producer of the events",
                )
    for inner in _list_inner_types(data_type):
        reject_lookalikes(inner, topic, session)


def _list_inner_types(data_type: DataType) -> list[DataType]:
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        return [field.dataType for field in data_type]
    if isinstance(data_type, T.MapType):
        return [data_type.keyType, data_type.valueType]
    return [data_type.elementType] if isinstance(data_type, T.ArrayType) else []


def reject_reserved_names(columns: Iterable[str], table: str, sinks: Iterable[Sink]) -> None:
    """Raise DataError for a column whose name a sink's format reserves.

    The column would be lost, or the table could not be read.
    """
    columns = tuple(columns)
    for sink in sinks:
        reserved = {name.lower() for name in sink.reserved_columns}
        name = next((c for c in columns if c.lower() in reserved or c.lower().startswith(sink.hidden_prefixes)), None)
        if name is not None:
            raise DataError(
                f"the column name {name!r} is reserved by the sink {sink.name!r}",
                where=f"table {table}",
                fix=f"rename it under `transforms:`, for example `- rename: {{columns: {{{name}: {name.strip('_')}}}}}`",
            )
