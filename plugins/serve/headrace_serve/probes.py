"""Probes: whether the engine runs, and whether the tables are current."""

from __future__ import annotations

from headrace.sdk.observer import Status, TableStatus
from headrace_serve.serve_config import ReadyConfig


def find_death(status: Status) -> str | None:
    """Return why the engine does not run; None while it does."""
    return None if status.active else f"the run has ended: {status.message}"


class Readiness:
    """Whether every table is within the delay. Threads may share it."""

    def __init__(self, config: ReadyConfig) -> None:
        self._config, self._has_caught_up = config, False

    def find_delays(self, status: Status) -> list[str]:
        """Return why the tables are not ready; none if they are."""
        delays = self._list_delays(status)
        self._has_caught_up = self._has_caught_up or not delays
        if self._config.during_catch_up and not self._has_caught_up and not self._list_failures(status):
            return []
        return delays

    def _list_delays(self, status: Status) -> list[str]:
        found = self._list_failures(status)
        if not status.has_answered and not status.tables:
            found.append("the source has not answered yet")
        elif status.applying is not None and not status.tables:
            found.append("the first batch is not committed yet")
        return found + [text for table in status.tables if (text := self._describe_delay(table, status))]

    def _list_failures(self, status: Status) -> list[str]:
        """Return what will not become ready without a repair."""
        found = [death] if (death := find_death(status)) else []
        if status.error:
            found.append(status.message)
        if status.silent_seconds is not None and status.silent_seconds > self._config.seconds:
            found.append(f"the source has not answered for {status.silent_seconds:.0f} s")
        return found + [f"{table.table} → {table.sink}: set aside" for table in status.tables if table.error]

    def _describe_delay(self, table: TableStatus, status: Status) -> str | None:
        """Return the delay of a table that is too late; None within the limit."""
        delay = status.find_delay(table)
        if table.error or delay is None or delay <= self._config.seconds:
            return None
        return f"{table.table} → {table.sink}: {delay:.0f} s behind"
