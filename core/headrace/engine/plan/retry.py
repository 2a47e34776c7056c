"""Retries of calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError, RetriableError
from headrace.sdk.format import UnknownSchemaError

#: Attempts in total, and the pause in seconds before the second one; each later pause is twice as long.
TRIES, FIRST_PAUSE_SECONDS = 4, 1.0

Result = TypeVar("Result")


def retry(
    call: Callable[[], Result],
    translate: Callable[[Exception], HeadraceError],
    wait: Callable[[float], object] = time.sleep,
) -> Result:
    """Return the result of ``call``, which is repeated after a pause while it raises a RetriableError.

    ``translate``: converts an error; ``wait`` may raise to end it. An unknown writer schema is not retried, because the batch must
    be planned again.
    """
    for attempt in range(TRIES):
        try:
            return call()
        except Exception as raised:
            error = translate(raised)
            is_last = attempt == TRIES - 1
            if is_last or not isinstance(error, RetriableError) or isinstance(error, UnknownSchemaError):
                raise error from raised
        wait(FIRST_PAUSE_SECONDS * 2**attempt)
    raise AssertionError("unreachable")


class Backoff:
    """Pauses in seconds, each twice as long as the previous one, up to a maximum."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def next(self) -> float:
        pause, self._next = self._next, min(2 * self._next, self._longest)
        return pause

    def reset(self) -> None:
        self._next = self._first
