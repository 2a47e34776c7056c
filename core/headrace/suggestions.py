"""Suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Number of names to list.
_FEW = 20


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the fix for an unknown name: the nearest known name, or else all known names."""
    names = sorted(set(known))
    folded = {n.lower(): n for n in names}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    if not names:
        return "there are no valid names"
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"known here: {', '.join(names[:_FEW])}{more}"
