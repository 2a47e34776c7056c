"""Metadata of a table under test, read by Iceberg."""

from __future__ import annotations

from typing import Any

from headrace.testing.tables import Target
from headrace_sinks.active_session import active
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.table_handle import TableHandle


def name_of(target: Target) -> str:
    """Return the name of the table in Spark."""
    assert isinstance(target.sink, IcebergSink)
    return target.sink._name(target.session, target.table)


def load_table_handle(target: Target) -> TableHandle:
    """Load the table under test."""
    with active(target.session):
        handle = TableHandle.load(target.session, name_of(target))
    assert handle is not None, "the table exists"
    return handle


def java_table(target: Target) -> Any:
    """Load Iceberg's table object of the table under test."""
    return load_table_handle(target).java
