"""Numbers, times and third-party text for display."""

from __future__ import annotations

import json
import re
from typing import Any

#: Unknown value, for example a count that needs a read of the table.
UNKNOWN = "–"
#: Characters that move the cursor, change colors, end a line, or reverse the order of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SHORT_CODES = {"\n": "\\n", "\t": "\\t"}
_STEPS = ((60, "s"), (60, "min"), (24, "h"), (365.25, "d"))


def format_count(value: int | None) -> str:
    """Return ``12,345``; a dash for an unknown value."""
    return UNKNOWN if value is None else f"{value:,}"


def count_noun(value: int | None, one: str, many: str | None = None) -> str:
    """Return ``1 batch``, ``2 batches``."""
    return f"{format_count(value)} {one if value == 1 else many or one + 's'}"


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


def escape_controls(text: str, *, keep_lines: bool = False) -> str:
    """Return third-party text with its control characters escaped, on one line or with its lines kept."""
    if keep_lines:
        return "\n".join(escape_controls(line.expandtabs(2)) for line in text.splitlines())
    return _CONTROL.sub(lambda match: _SHORT_CODES.get(match[0]) or _format_code(match[0]), text)


def format_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON; control characters that JSON would keep are escaped."""
    return escape_json(json.dumps(value, ensure_ascii=False, default=str, indent=indent))


def escape_json(text: str) -> str:
    """Return equivalent JSON without control characters; line breaks between values stay."""
    return _CONTROL.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def _format_code(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
