"""Kit tests for sinks with several types of tables or files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from headrace.testing._internal.histories import HistoryConformance
from headrace.testing._internal.values import ValueConformance
from headrace.testing.plugins import PluginConformance
from headrace.testing.sinks import SinkConformance

_K = TypeVar("_K", bound=type[SinkConformance])
#: Of what a sink makes of batches, what its files are read for.
_READ = {
    "test_append_keeps_every_row",
    "test_empty_batch_changes_nothing",
    "test_reappending_a_batch_changes_nothing",
}


def for_another_type(kit: _K) -> _K:
    """Leaves out what every plugin is asked and what the engine makes of a history: the sink's first type has these.

    The engine asks the same of every type of table, and the kit tests each of these requests on this type too; random
    histories run on all types in tests/core/upsert/test_histories.py.
    """
    return _leave_out(kit, _list_tests(PluginConformance, HistoryConformance))


def for_another_format(kit: _K) -> _K:
    """Leaves out all but values and columns, and that rows are there once: what else a sink does with its files, it does with
    those of its first format.
    """
    return _leave_out(kit, set(_list_tests(kit)) - {*_list_tests(ValueConformance), *_READ})


def _list_tests(*kits: type) -> list[str]:
    return [name for kit in kits for name in dir(kit) if name.startswith("test_")]


def _leave_out(kit: _K, tests: Iterable[str]) -> _K:
    for name in tests:
        setattr(kit, name, None)
    return kit
