"""Changes of another source table than that of their topic's first record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.checkpoint.source_tables import SourceTables
from headrace.control_characters import escape_controls
from headrace.errors import DataError
from headrace.sdk.changes import ERROR, Changes
from headrace.sdk.reject_reason import RejectReason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

#: Number of records of other tables in a topic's first batch that are no single records.
_MANY = 20
_NAME = "_headrace_table"
#: Parts of a table's name, and the fields of events that may have them.
_LEVELS = ("db", "schema", "table")
_FIELDS = ("source.{}", "metadata.{}-name", "__source_{}", "__{}")
#: Longest name in an error.
_LONGEST = 80


def reject_other_tables(changes: Changes, topic: str, name: Column, tables: SourceTables, *, is_ruled: bool) -> Changes:
    """Reject changes whose source table (``name``) is not that of the topic.

    DataError if the first batch of a topic has many changes of several tables. ``is_ruled``: the file has a policy for them.
    """
    from pyspark.sql import functions as F

    # A schema change may name another table, or several tables.
    is_row = F.coalesce(F.col(ERROR) != RejectReason.OP_NOT_A_ROW, F.lit(True))
    table = tables.get(topic)
    if table is None:
        fields = _find_name_fields(changes.frame)
        columns = [F.col(".".join(f"`{part}`" for part in field.split("."))).alias(field) for field in fields]
        rows = changes.frame.where(name.isNotNull() & is_row).select(name.alias(_NAME), *columns)
        first = rows.first()
        if first is None:
            return changes
        table = str(first[0])
        if not is_ruled:
            _refuse_several_tables(topic, [first, *rows.where(F.col(_NAME) != table).head(_MANY)], fields)
        tables.put(topic, table)
    # This reason precedes those of rows: a truncate of another table must not empty this one.
    error = F.when((name != table) & is_row, F.lit(RejectReason.OTHER_TABLE)).otherwise(F.col(ERROR))
    return replace(changes, frame=changes.frame.withColumn(ERROR, error))


def _find_name_fields(frame: DataFrame) -> list[str]:
    """Return the fields with the database, the schema and the table of an event, as ``route.by.field`` names them."""
    inner = {field.name: getattr(field.dataType, "names", ()) for field in frame.schema}
    known = {*frame.columns, *(f"{top}.{name}" for top, names in inner.items() for name in names)}
    found = [[field.format(level) for field in _FIELDS if field.format(level) in known] for level in _LEVELS]
    return [fields[0] for fields in found if fields] if found[-1] else []


def _refuse_several_tables(topic: str, rows: list[Row], fields: list[str]) -> None:
    """Raise if many rows are of other tables than the first one. The fix names the fields by which the tables differ."""
    if len(rows) <= _MANY:
        return
    values = {field: {row[1 + number] for row in rows} for number, field in enumerate(fields)}
    by = [field for field in fields[:-1] if len(values[field]) > 1 and None not in values[field]]
    by += fields[-1:] or ["source.table"]
    route = by[0] if len(by) == 1 else f"[{', '.join(by)}]"
    names = dict.fromkeys(_shorten(str(row[0])) for row in rows)
    raise DataError(
        f"the topic has changes of several tables: {', '.join(names)}",
        where=f"topic {topic}",
        fix=f"set `route.by.field: {route}` in its rule, and name each table in "
        "`target`; or `logical.table: true` for shards of one table. `dead.letters: {other-table: dead-letter}` keeps the "
        "first table alone",
    )


def _shorten(name: str) -> str:
    return escape_controls(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")
