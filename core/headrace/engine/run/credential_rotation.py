"""Rotated credentials: after a failed authentication a run re-resolves the secrets of its file."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import Backoff
from headrace.engine.run.current_plan import CurrentPlan
from headrace.errors import HeadraceError, LoginError

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
) -> bool:
    """Return whether the references resolve to other credentials than ``used``; if not, add that to the error's fix.

    ``is_patient``: re-resolve them for a while. No login is attempted meanwhile, because some servers lock accounts after several
    wrong passwords. ``wait`` returns True to end it.
    """
    if used.renewal is None:
        return False
    pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    end = time.monotonic() + (PATIENCE_SECONDS if is_patient else 0)
    while True:
        try:
            if current.rotate(used, session):
                return True
            hint = f"{', '.join(used.renewal.references)} resolved to the same rejected credentials again"
        except HeadraceError as error:
            hint = f"the secrets could not be resolved again: {error.what}"
        remaining = end - time.monotonic()
        if remaining <= 0 or wait(min(pauses.next(), remaining)):
            refused.fix = "; ".join(filter(None, [refused.fix, hint]))
            return False


def has_rotated_credentials(current: CurrentPlan, used: Plan, session: SparkSession, error: Exception) -> bool:
    """Return whether authentication failed and the references resolve to other credentials than ``used``."""
    with suppress(HeadraceError):  # If the secret store does not respond, the authentication error is more useful.
        return isinstance(error, LoginError) and current.rotate(used, session)
    return False
