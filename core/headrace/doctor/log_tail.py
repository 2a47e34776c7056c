"""End of a log file: the lines of headrace, and of others only their form, because they may contain values of rows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from headrace.errors import ConfigError

#: Lines of the end of a log.
LINES = 1000
#: Lines of headrace's log start with the time in UTC, or are JSON of a batch or an error.
_OWN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z |\{\"(pipeline|time)\": ")
#: Parts of other lines that contain no values: a frame of a stack trace, the class of an exception, the level and the class of a logger.
_FORMS = tuple(
    map(
        re.compile,
        (
            r"\s+at [\w$.<>/@ ]+\([\w$.: ]*\)$",
            r"  File \"[^\"]+\", line \d+, in [\w<>.]+$",
            r"\s*\.\.\. \d+ more$",
            r"Traceback \(most recent call last\):$",
            r"(Caused by: )?[a-zA-Z_][\w$]*(\.[\w$]+)+(?=:|$)",
            r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) [\w$.]+(?=:|$)",
        ),
    )
)


def read_tail(file: str) -> list[str]:
    """Return the last lines of a log that are safe to show. ConfigError if it cannot be read."""
    try:
        with Path(file).open(encoding="utf-8", errors="replace") as log:
            lines = deque(log, LINES)
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=file, fix="check the path and its permissions"
        ) from error
    return list(_select(lines))


def _select(lines: deque[str]) -> Iterator[str]:
    """Yield the lines of headrace, the forms of others, and the number of lines that are left out."""
    omitted = 0
    for line in map(str.rstrip, lines):
        shown = line if _OWN.match(line) else next((match[0] for form in _FORMS if (match := form.match(line))), None)
        if shown is None:
            omitted += 1
            continue
        if omitted:
            yield f"[other lines: {omitted}]"
        omitted = 0
        yield shown
    if omitted:
        yield f"[other lines: {omitted}]"
