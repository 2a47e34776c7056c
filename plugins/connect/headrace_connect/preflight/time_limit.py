"""Time limit for the conversation with a server. The drivers limit each read alone, and a read may bring one byte."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from headrace.sdk import RetriableError

Result = TypeVar("Result")


def run_within(seconds: float, work: Callable[[], Result], *, fix: str) -> Result:
    """Return the result of ``work``, or raise its error. RetriableError if it takes longer; its thread then ends with the process."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            future.set_exception(error)

    # The threads of an executor would delay the end of the process.
    Thread(target=run, name="headrace-preflight", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # The work itself failed with such an error.
            raise
        what = f"the database did not answer all queries within {seconds:g} seconds"
        raise RetriableError(what, fix=fix) from None
