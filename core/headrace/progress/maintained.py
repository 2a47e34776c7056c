"""Result of a maintenance step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Maintained:
    """Result of a maintenance step for a table. ``what``: what it found; ``error``: why it failed.

    ``outcome`` is None if the step was not run.
    """

    table: str
    sink: str
    step: str
    what: str
    outcome: str | None = None
    seconds: float = 0.0
    error: str | None = None

    def __str__(self) -> str:
        place = f"{self.table} → {self.sink}: {self.step}"
        if self.error is not None:
            return f"{place}: {self.error}"
        if self.outcome is None:
            return f"{place}: {self.what}"
        return f"{place}: {self.outcome}, took {self.seconds:.1f} s"
