"""Metadata of a table under test, read by Iceberg."""

from __future__ import annotations

from typing import Any

from headrace.testing.tables import Target
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.iceberg_catalog import active, load_table


def name_of(target: Target) -> str:
    """Return the name of the table in Spark."""
    assert isinstance(target.sink, IcebergSink)
    return target.sink._name(target.session, target.table)


def java_table(target: Target) -> Any:
    """Iceberg's table object, as the table is now."""
    with active(target.session):
        return load_table(target.session, name_of(target))
