"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The fix for a name that does not exist: the nearest known one, or all of them when they are few."""
    names = sorted(set(known))
    folded = {n.lower(): n for n in names}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    return f"known here: {', '.join(names)}" if names else "nothing is known here"
