"""Check of regular expressions of Java, which a long text can drive into an overflow of the stack. It ends the process."""

from __future__ import annotations

import re

#: Greatest number of repetitions of groups. Java calls itself for each one, and Spark's threads have a small stack.
MAX_REPETITIONS = 200
_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|.", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[+?]?")
#: Classes that Java matches as groups: a line break, and a character with its accents.
_OF_SEVERAL_LENGTHS = (r"\R", r"\X")
_COMMENTS = re.compile(r"\(\?[a-zA-Z]*x")


def find_repetition(pattern: str) -> str | None:
    r"""Return how a pattern repeats groups, ``\R`` or ``\X`` too often; None if it does not."""
    if _COMMENTS.search(pattern):
        return "has the flag x"
    loops, depth, place = [0.0], 0, 0  # The repetitions in each open group, and the number of open character classes.
    while token := _TOKEN.match(pattern, place):
        place = token.end()
        if token[0] in "[]":
            depth = max(depth + (1 if token[0] == "[" else -1), 0)
        elif depth == 0 and token[0] == "(":
            loops.append(0.0)
        elif depth == 0 and (token[0] in _OF_SEVERAL_LENGTHS or (token[0] == ")" and len(loops) > 1)):
            quantifier = _QUANTIFIER.match(pattern, place)
            inner = loops.pop() if token[0] == ")" else 0.0
            loops[-1] += max(inner, 1) * _count(quantifier[0]) if quantifier and _count(quantifier[0]) > 1 else inner
            if loops[-1] > MAX_REPETITIONS:
                what = "groups" if token[0] == ")" else token[0]
                return f"repeats {what} {'without a limit' if loops[-1] == float('inf') else f'{loops[-1]:.0f} times'}"
    return None


def _count(quantifier: str) -> float:
    """Return how often a quantifier repeats a group on the stack: a possessive one does not."""
    if quantifier[-1] == "+" and len(quantifier) > 1:
        return 1
    if quantifier[0] == "{":
        last = quantifier.strip("{}+?").split(",")[-1]
        return int(last) if last else float("inf")
    return 1 if quantifier[0] == "?" else float("inf")
