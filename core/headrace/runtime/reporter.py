"""Reporters of the steps of a session start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Reporter(Protocol):
    """Output of the steps and facts of a start: a screen, lines of text, or nothing."""

    def report(self, text: str) -> None:
        """Show a fact or a finished step."""

    def step(self, text: str) -> None:
        """Show the current step until the next one starts."""


class LineReporter:
    """Reporter that passes each message to a function such as ``print``. Without a function it reports nothing."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def report(self, text: str) -> None:
        """Write a line."""
        if self._write:
            self._write(text)

    def step(self, text: str) -> None:
        """Write nothing; only finished steps are reported."""
