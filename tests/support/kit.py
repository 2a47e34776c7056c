"""The kit's tests, for sinks that have more than one type of table."""

from __future__ import annotations

from typing import TypeVar

from headrace.testing.histories import HistoryConformance
from headrace.testing.sinks import SinkConformance

_K = TypeVar("_K", bound=type[SinkConformance])


def without_histories(kit: _K) -> _K:
    """Leaves out what the engine makes of a history.

    The engine asks the same of every type of table, and the kit tests each of these requests on this type too; histories
    through the engine run on the sink's first type, and random ones on all types in tests/core/upsert/test_histories.py.
    """
    for name in vars(HistoryConformance):
        if name.startswith("test_"):
            setattr(kit, name, None)
    return kit
