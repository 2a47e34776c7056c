"""Numbers, times and names as people read them."""

from __future__ import annotations

import re

#: A count that nobody knows without reading the table.
UNKNOWN = "–"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STEPS = ((60, "s"), (60, "min"), (24, "h"), (365.25, "d"))


def format_count(value: int | None) -> str:
    """``12,345``; a dash for what is not known."""
    return UNKNOWN if value is None else f"{value:,}"


def count_noun(value: int | None, one: str, many: str | None = None) -> str:
    """``1 batch``, ``2 batches``."""
    return f"{format_count(value)} {one if value == 1 else many or one + 's'}"


def format_duration(seconds: float | None) -> str:
    """``0.8 s``, ``12 s``, ``3.4 min``, ``5.1 y``; a dash for what is not known."""
    if seconds is None:
        return UNKNOWN
    value = max(0.0, seconds)
    for size, unit in _STEPS:
        if value < size:
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
        value /= size
    return f"{value:.1f} y"


def format_size(value: int) -> str:
    """``41.2 kB``, ``3.0 MB``."""
    return f"{value / 1e3:.1f} kB" if value < 1e6 else f"{value / 1e6:.1f} MB"


def escape_controls(text: str) -> str:
    """Text on one line; what would move the cursor or change its colour is shown by its code."""
    return _CONTROL.sub(lambda match: {"\n": "\\n", "\t": "\\t"}.get(match[0], f"\\x{ord(match[0]):02x}"), text)
