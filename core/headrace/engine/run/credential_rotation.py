"""Rotated credentials: after a failed authentication a run re-resolves the secrets of its file."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import Backoff
from headrace.engine.run.current_plan import MAX_ROTATIONS, CurrentPlan
from headrace.errors import FatalError, HeadraceError, LoginError, RetriableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds for which a run re-resolves its references: a rotation changes the server and the secret store one after the other. Pauses
#: between attempts: the first, and the longest.
PATIENCE_SECONDS, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 1.0, 10.0


def wait_for_rotated_credentials(
    current: CurrentPlan,
    used: Plan,
    session: SparkSession,
    refused: LoginError,
    wait: Callable[[float], bool],
    *,
    is_patient: bool,
) -> HeadraceError | None:
    """Return None if the references resolve to other credentials than ``used``; otherwise the error that ends the run.

    A run with new values of ``spark:`` needs a new session: the error has an exit code that supervisors restart.

    ``is_patient``: re-resolve them for a while, in which the time without a response of the secret store does not count. No login is
    attempted meanwhile, because some servers lock accounts after several wrong passwords. ``wait`` returns True to end it.
    """
    if used.renewal is None:
        return refused
    pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    end = time.monotonic() + (PATIENCE_SECONDS if is_patient else 0)
    while True:
        error: HeadraceError = refused
        try:
            if current.rotate_for_batch(used, session):
                return None
            if current.has_outdated_session:
                what = f"{refused.what}; the values of `spark:` have changed since the session started, which keeps the old ones"
                return FatalError(what, where=refused.where, fix="start the run again: nothing is lost")
            hint = f"{', '.join(used.renewal.references)} resolved to {_describe(current)}"
        except RetriableError as busy:
            what = f"{refused.what}, and the secrets could not be resolved again: {busy.what}"
            error, hint = RetriableError(what, where=refused.where, fix=busy.fix), ""
            end = max(end, time.monotonic() + LONGEST_PAUSE_SECONDS) if is_patient else end
        except HeadraceError as missing:
            hint = f"the secrets could not be resolved again: {missing.what}"
        remaining = end - time.monotonic()
        if current.is_exhausted or remaining <= 0 or wait(min(pauses.next(), remaining)):
            error.fix = "; ".join(filter(None, [error.fix, hint]))
            return error


def _describe(current: CurrentPlan) -> str:
    if current.is_exhausted:
        return f"other credentials {MAX_ROTATIONS} times in a row, and all of them were rejected"
    return "the same rejected credentials again"


def has_rotated_credentials(rotate: Callable[[], bool], error: Exception) -> bool:
    """Return whether authentication failed, and ``rotate`` finds other credentials."""
    with suppress(HeadraceError):  # If the secret store does not respond, the authentication error is more useful.
        return isinstance(error, LoginError) and rotate()
    return False
