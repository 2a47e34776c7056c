"""Metadata of a table under test, read by Hudi."""

from __future__ import annotations

from headrace.testing.tables import Target
from headrace_sinks.hudi import HudiSink
from headrace_sinks.hudi.hudi_table_services import TableServices


def load_table_services(target: Target) -> TableServices:
    assert isinstance(target.sink, HudiSink)
    services = target.sink._services(target.session, target.table)
    assert services is not None
    return services
