"""Changes of another source table than that of their topic's first record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.checkpoint.source_tables import SourceTables
from headrace.errors import DataError
from headrace.sdk.changes import ERROR, Changes
from headrace.sdk.reject_reason import RejectReason

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Number of records of other tables in a topic's first batch that are no single records.
_MANY = 20
_NAME = "table"


def reject_other_tables(changes: Changes, topic: str, name: Column, tables: SourceTables, *, is_ruled: bool) -> Changes:
    """Reject changes whose source table (``name``) is not that of the topic.

    DataError if the first batch of a topic has many changes of several tables. ``is_ruled``: the file has a policy for them.
    """
    from pyspark.sql import functions as F

    # A schema change may name another table, or several tables.
    is_row = F.coalesce(F.col(ERROR) != RejectReason.OP_NOT_A_ROW, F.lit(True))
    table = tables.get(topic)
    if table is None:
        rows = changes.frame.where(name.isNotNull() & is_row).select(name.alias(_NAME))
        first = rows.first()
        if first is None:
            return changes
        table = str(first[0])
        if not is_ruled:
            _refuse_several_tables(topic, table, [str(row[0]) for row in rows.where(F.col(_NAME) != table).head(_MANY)])
        tables.put(topic, table)
    # This reason precedes those of rows: a truncate of another table must not empty this one.
    error = F.when((name != table) & is_row, F.lit(RejectReason.OTHER_TABLE)).otherwise(F.col(ERROR))
    return replace(changes, frame=changes.frame.withColumn(ERROR, error))


def _refuse_several_tables(topic: str, table: str, others: list[str]) -> None:
    if len(others) == _MANY:
        raise DataError(
            f"the topic has changes of several tables: {', '.join(dict.fromkeys([table, *others]))}",
            where=f"topic {topic}",
            fix="set `route.by.field: source.table` in its rule, and name each table in `target`; or `logical.table: true` for "
            "shards of one table. `dead.letters: {other-table: dead-letter}` keeps the first table alone",
        )
