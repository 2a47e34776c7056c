"""A login that is refused in mid-run: the secrets behind it may have been rotated."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import Backoff
from headrace.errors import HeadraceError, LoginError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds for which the references are asked for: who rotates a password tells the server and the keeper of the secret one after
#: the other. The pauses between: the first, and the longest.
PATIENCE_SECONDS, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 1.0, 10.0


def wait_for_rotated_credentials(
    plan: Plan, session: SparkSession, refused: LoginError, wait: Callable[[float], bool], *, is_patient: bool
) -> bool:
    """Whether the plan's references say something else, now or, if it ``is_patient``, in a while; else the error says so.

    Nobody logs in meanwhile: some servers lock out who tries a wrong password often. ``wait`` returns True to end it.
    """
    if plan.renewal is None:
        return False
    pauses, end = (
        Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS),
        time.monotonic() + (PATIENCE_SECONDS if is_patient else 0),
    )
    while True:
        try:
            if plan.renew(session):
                return True
            answer = f"{', '.join(plan.renewal.references)} gave what was refused when it was asked again"
        except HeadraceError as error:
            answer = f"nothing else could be had: {error.what}"
        left = end - time.monotonic()
        if left <= 0 or wait(min(pauses.next(), left)):
            refused.fix = "; ".join(filter(None, [refused.fix, answer]))
            return False


def has_rotated_credentials(plan: Plan, session: SparkSession, error: Exception) -> bool:
    """Whether a login was refused for which the plan's references say something else by now."""
    with suppress(HeadraceError):  # who keeps the secrets does not answer: what was refused is what is known
        return isinstance(error, LoginError) and plan.renew(session)
    return False
