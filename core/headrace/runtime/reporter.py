"""Where a program shows what it does on the way to a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Reporter(Protocol):
    """What shows a user the steps and facts of a start: a screen, lines of text, or nothing."""

    def report(self, text: str) -> None:
        """Shows a fact, or what has been done."""

    def step(self, text: str) -> None:
        """Shows what is done from now on, until the next step."""


class LineReporter:
    """A reporter that gives each fact to a function that takes a line, such as ``print``; without one it is silent."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def report(self, text: str) -> None:
        """Writes a line."""
        if self._write:
            self._write(text)

    def step(self, text: str) -> None:
        """Writes nothing: what is done next is seen by its result."""
