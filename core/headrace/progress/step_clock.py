"""Duration of the steps of a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StepClock:
    """Clock of one batch."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Add the duration of the block to a step. A step may be repeated."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._spent[step] = self._spent.get(step, 0.0) + time.monotonic() - began

    @property
    def seconds(self) -> dict[str, float]:
        """Step → seconds, in the order of their first blocks. Steps of less than a millisecond are left out."""
        return {step: rounded for step, spent in self._spent.items() if (rounded := round(spent, 3))}
