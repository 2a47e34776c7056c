"""Warnings about a service that does not accept messages: one when an outage begins, and one when it ends."""

from __future__ import annotations

from collections.abc import Callable


class Outage:
    """Outage of one service."""

    def __init__(self, place: str, warn: Callable[[str], None]) -> None:
        self._place, self._warn, self._is_down = place, warn, False

    def note_failure(self, reason: str) -> None:
        """Record a failed attempt."""
        if not self._is_down:
            self._is_down = True
            self._warn(f"{self._place} does not accept a message: {reason}; it is tried again")

    def note_success(self) -> None:
        """Record a successful attempt."""
        if self._is_down:
            self._is_down = False
            self._warn(f"{self._place} accepts messages again")
