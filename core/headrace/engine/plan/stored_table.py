"""Stored tables as the engine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.changes import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.sdk.sink import Sink, Table


def read_stored(sink: Sink, table: Table, session: SparkSession) -> DataFrame | None:
    """Return the columns of a table and headrace's columns, without columns of the table format; None if the table does not exist."""
    rows = sink.read_or_none(session, table)
    if rows is None:
        return None
    hidden = tuple(prefix for prefix in sink.hidden_prefixes if prefix != PREFIX)
    return rows.drop(*[name for name in rows.columns if name.startswith(hidden)]) if hidden else rows
