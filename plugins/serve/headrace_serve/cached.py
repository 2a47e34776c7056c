"""Results that are computed again after a change, or after a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

#: Seconds after which a result is computed again: ages and lags change without an event.
MAX_AGE = 1.0


class Cached(Generic[Result]):
    """Result of a function, computed by one thread at a time. ``version`` returns another value after a change."""

    def __init__(self, make: Callable[[], Result], version: Callable[[], object]) -> None:
        self._make, self._version, self._lock = make, version, threading.Lock()
        self._made: tuple[object, float, Result] | None = None

    def get(self) -> Result:
        """Return the result."""
        with self._lock:
            version, now = self._version(), time.monotonic()
            if self._made is None or self._made[0] != version or now - self._made[1] > MAX_AGE:
                self._made = (version, now, self._make())
            return self._made[2]
