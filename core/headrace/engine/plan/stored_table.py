"""Stored tables as the engine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.changes import PREFIX
from headrace.upsert.versions import current_rows, is_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.sdk.sink import Sink, Table


def read_stored(sink: Sink, table: Table, session: SparkSession) -> DataFrame | None:
    """Return the columns of a table and headrace's columns, without columns of the table format; None if the table does not exist.

    Of a history, these are the current rows.
    """
    rows = read_all_stored(sink, table, session)
    return current_rows(rows) if rows is not None and is_history(rows) else rows


def read_all_stored(sink: Sink, table: Table, session: SparkSession) -> DataFrame | None:
    """Return what ``read_stored`` does, and of a history all versions, with the columns of their periods."""
    rows = sink.read_or_none(session, table)
    if rows is None:
        return None
    hidden = tuple(prefix for prefix in sink.hidden_prefixes if prefix != PREFIX)
    return rows.drop(*[name for name in rows.columns if name.startswith(hidden)]) if hidden else rows
