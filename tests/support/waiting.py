"""Waits for results of a running pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.engine.run.query import Query
    from headrace.progress.model import BatchProgress


#: Seconds after which tables are compared again without a new batch, because a failed table catches up between batches.
_MAX_SECONDS_BETWEEN_CHECKS = 3.0


def until_tables(query: Query, look: Callable[[], tuple[Any, Any]], what: str, seconds: float = 240) -> None:
    """Wait until tables have the expected rows. ``look`` returns actual and expected rows, which a timeout reports.

    Tables are compared after each batch and not continuously, because reads take processor time from the batches.
    """
    deadline = time.monotonic() + seconds
    while True:
        batch = query.last_progress
        actual, expected = look()
        if actual == expected:
            return
        assert query.is_active, query.exception
        if time.monotonic() > deadline:
            assert actual == expected, [what, query.status, *query.recent_progress]
        _await_batch(query, batch)


def _await_batch(query: Query, last: BatchProgress | None) -> None:
    """Wait until a later batch has ended, no batch will follow, or the time is over."""
    end = time.monotonic() + _MAX_SECONDS_BETWEEN_CHECKS
    while query.is_active and query.last_progress is last and time.monotonic() < end:
        time.sleep(0.05)


def until(condition: Callable[[], Any], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)


@contextmanager
def stop_at_end(query: Query) -> Iterator[Query]:
    """Stop a query at the end of the block."""
    try:
        yield query
    finally:
        query.stop()
