"""Pauses while the source database is busy."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.sdk import RetriableError
from headrace_verify.source_table import SourceDatabase

#: Seconds between two looks at the load, and of a pause without a message.
_INTERVAL, _SILENCE = 1.0, 5.0


class LoadLimit:
    """Pauses while more than ``limit`` other sessions run statements in a database; None for no pauses.

    ``timeout``: seconds after which a pause ends with an error; ``report`` prints a line. ConfigError if the load cannot be observed.
    """

    def __init__(
        self, database: SourceDatabase, limit: int | None, timeout: float, report: Callable[[str], None]
    ) -> None:
        self._database, self._limit, self._timeout, self._report = database, limit, timeout, report
        #: Start of the pause. It stays after an error, so that each further table does not wait for the timeout again.
        self._start: float | None = None
        if limit is not None:
            database.count_active()

    def wait(self) -> None:
        """Return when the load is within the limit. RetriableError if it stays above for the timeout."""
        is_reported = False
        while load := self._find_excess():
            self._start = time.monotonic() if self._start is None else self._start
            seconds = time.monotonic() - self._start
            if seconds >= self._timeout:
                fix = "verify when it is less busy, or raise `max.load` or `max.load.timeout` in `verify:`"
                raise RetriableError(f"the database was busy for {seconds:.0f} seconds: {load}", fix=fix)
            if seconds >= _SILENCE and not is_reported:
                self._report(f"paused: {load}")
                is_reported = True
            time.sleep(_INTERVAL)
        if is_reported and self._start is not None:
            self._report(f"continued after {time.monotonic() - self._start:.0f} seconds")
        self._start = None

    def _find_excess(self) -> str:
        """Return a description of a load above the limit."""
        if self._limit is None or (active := self._database.count_active()) <= self._limit:
            return ""
        return f"{active} other sessions run statements, and `max.load` is {self._limit}"
