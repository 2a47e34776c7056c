"""Reserved column names of headrace and of table formats, compared without case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.schema.file_types import list_structs
from headrace.sdk.changes import PREFIX
from headrace.sdk.sink import Sink
from headrace.spark.columns import name_fold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField


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
    for path, struct in (found for column in columns for found in list_structs(column.dataType, (column.name,))):
        if not struct.fields:
            raise DataError(
                f"the column {'.'.join(path)!r} is a struct without fields, which no table can store",
                where=f"table {table}",
                fix="exclude the topic, or remove the field in the producer of the events",
            )


def reject_lookalikes(data_type: DataType, topic: str, session: SparkSession) -> None:
    """Raise DataError for two names in one struct that the session does not distinguish."""
    fold = name_fold(session)
    for _, struct in list_structs(data_type):
        spellings: dict[str, str] = {}
        for name in struct.names:
            other = spellings.setdefault(fold(name), name)
            if other != name:
                raise DataError(
                    f"the names {other!r} and {name!r} differ only by case, and tables do not distinguish them",
                    where=f"topic {topic}",
                    fix="rename one of them at the source, or exclude it in the producer of the events",
                )


def reject_reserved_names(columns: Iterable[str], table: str, sinks: Iterable[Sink]) -> None:
    """Raise DataError for a column whose name a sink's format reserves.

    The column would be lost, or the table could not be read.
    """
    columns = tuple(columns)
    for sink in sinks:
        name = next((column for column in columns if is_reserved(sink, column)), None)
        if name is not None:
            raise DataError(
                f"the column name {name!r} is reserved by the sink {sink.name!r}",
                where=f"table {table}",
                fix=f"rename it under `transforms:`, for example `- rename: {{columns: {{{name}: {name.strip('_')}}}}}`",
            )


def is_reserved(sink: Sink, column: str) -> bool:
    """Return whether a sink's format reserves the name of a column."""
    name = column.lower()
    return name.startswith(sink.hidden_prefixes) or name in {reserved.lower() for reserved in sink.reserved_columns}
