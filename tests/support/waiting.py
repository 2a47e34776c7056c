"""Waiting for what a running pipeline does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.engine.query import Query


def until(condition: Callable[[], Any], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


@contextmanager
def stop_at_end(query: Query) -> Iterator[Query]:
    """It ends with the block."""
    try:
        yield query
    finally:
        query.stop()
