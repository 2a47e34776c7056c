"""Time limit for work with a server. Drivers limit each read alone, and a read may bring one byte."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

from headrace.errors import RetriableError

Result = TypeVar("Result")


def run_within(seconds: float, work: Callable[[], Result], *, what: str, fix: str) -> Result:
    """Return the result of ``work``, or raise its error. RetriableError if it takes longer; its thread then ends with the process."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            future.set_exception(error)

    # The threads of an executor would delay the end of the process.
    Thread(target=copy_context().run, args=(run,), name="headrace-time-limit", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # The work itself failed with such an error.
            raise
        raise RetriableError(f"{what} within {seconds:g} seconds", fix=fix) from None
