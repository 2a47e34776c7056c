"""Java's ``.properties`` files, in which many programs keep their passwords."""

from __future__ import annotations

import re

_COMMENT_OR_EMPTY = re.compile(r"\s*(?:[#!].*)?")
#: A key ends before the first ``=``, ``:`` or space without a backslash in front.
_PAIR = re.compile(r"\s*(?P<key>(?:\\.|[^\\\s=:])*)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ENDS_IN_BACKSLASH = re.compile(r"(?:^|[^\\])(?:\\\\)*\\$")


def parse_properties(text: str) -> dict[str, str]:
    """Return the pairs of a file; of a duplicate key the last one."""
    return {
        _unescape(pair["key"]): _unescape(pair["value"]) for pair in map(_PAIR.fullmatch, _join_lines(text)) if pair
    }


def _join_lines(text: str) -> list[str]:
    """Yield the lines that have a pair, each joined with its continuation lines."""
    joined: list[str] = []
    goes_on = False
    for line in re.split(r"\r\n|\n|\r", text):
        if not goes_on and _COMMENT_OR_EMPTY.fullmatch(line):
            continue
        had_more, goes_on = goes_on, bool(_ENDS_IN_BACKSLASH.search(line))
        part = line[:-1] if goes_on else line
        if had_more:
            joined[-1] += part.lstrip()
        else:
            joined.append(part)
    return joined


def _unescape(text: str) -> str:
    special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else special.get(m[2], m[2]), text)
