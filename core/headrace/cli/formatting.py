"""Numbers, times and third-party text for display."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from headrace.control_characters import CONTROL

#: Unknown value, for example a count that needs a read of the table.
UNKNOWN = "–"
_STEPS = ((60, "s"), (60, "min"), (24, "h"), (365.25, "d"))


def format_count(value: int | None) -> str:
    """Return ``12,345``; a dash for an unknown value."""
    return UNKNOWN if value is None else f"{value:,}"


def count_noun(value: int | None, one: str, many: str | None = None) -> str:
    """Return ``1 batch``, ``2 batches``."""
    return f"{format_count(value)} {one if value == 1 else many or one + 's'}"


def format_now() -> str:
    """Return the current time in UTC, ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_duration(seconds: float | None) -> str:
    """Return ``0.8 s``, ``12 s``, ``3.4 min``, ``5.1 y``; a dash for an unknown value."""
    if seconds is None:
        return UNKNOWN
    value = max(0.0, seconds)
    for size, unit in _STEPS:
        if value < size:
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
        value /= size
    return f"{value:.1f} y"


def format_lag(records: int | None, seconds: float | None) -> str:
    """Return the number of waiting records; when it is unknown, the time by which the table is behind."""
    return format_duration(seconds) if records is None else format_count(records)


def format_size(value: int) -> str:
    """Return ``41.2 kB``, ``3.0 MB``."""
    return f"{value / 1e3:.1f} kB" if value < 1e6 else f"{value / 1e6:.1f} MB"


def format_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON; control characters that JSON would keep are escaped."""
    return escape_json(json.dumps(value, ensure_ascii=False, default=str, indent=indent))


def escape_json(text: str) -> str:
    """Return equivalent JSON without control characters; line breaks between values stay."""
    return CONTROL.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)
