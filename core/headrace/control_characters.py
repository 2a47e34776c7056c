"""Control characters in third-party text for a terminal."""

from __future__ import annotations

import re

#: Characters that move the cursor, change colors, end a line, or reverse the order of characters.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SHORT_CODES = {"\n": "\\n", "\t": "\\t"}


def escape_controls(text: str, *, keep_lines: bool = False) -> str:
    """Return third-party text with its control characters escaped, on one line or with its lines kept."""
    if keep_lines:
        return "\n".join(escape_controls(line.expandtabs(2)) for line in text.splitlines())
    return CONTROL.sub(lambda match: _SHORT_CODES.get(match[0]) or _format_code(match[0]), text)


def _format_code(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
