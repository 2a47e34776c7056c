"""Result of one check before a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import HeadraceError


@dataclass(frozen=True)
class CheckItem:
    """One check and its result; ``error`` if it prevents a run."""

    what: str
    found: str
    error: HeadraceError | None = None

    def redact(self, clean: Callable[[str], str]) -> CheckItem:
        """Return the item with ``clean`` applied to its texts."""
        return CheckItem(clean(self.what), clean(self.found), self.error and self.error.redact(clean))
