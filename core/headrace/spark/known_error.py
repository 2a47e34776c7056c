"""Known errors of libraries, and the errors that headrace reports instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.spark.error_text import full_text

#: What precedes the message in a line of an error: Spark's prefix of a failed query, and Java's exception classes.
_PREFIXES = re.compile(
    r"^.*\[STREAM_FAILED\] Query \[.*?\] terminated with exception: |\b(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error): "
)


@dataclass(frozen=True)
class KnownError:
    """Error that a library is known to raise.

    ``pattern``: a regular expression that is searched in the full text of the error, with the JVM's causes. ``what`` and ``fix``
    are format strings. Their fields: ``{detail}``, the first group of the pattern that matched, or the whole match;
    ``{line}``, the line of the match; ``{message}``, that line without exception classes; and the caller's own fields.
    """

    pattern: str
    error: type[HeadraceError]
    what: str
    fix: str
    where: str | None = None


def explain_known_error(
    error: BaseException, known_errors: Iterable[KnownError], *, where: str | None = None, **fields: str
) -> HeadraceError | None:
    """Build the error for users from the first known error that matches; None when none does.

    ``where`` is used for known errors without a location. ``fields`` are values for their format strings.
    """
    text = full_text(error)
    for known in known_errors:
        if match := re.search(known.pattern, text):
            values = {**_read_match(match, text), **fields}
            return known.error(known.what.format(**values), where=known.where or where, fix=known.fix.format(**values))
    return None


def _read_match(match: re.Match[str], text: str) -> dict[str, str]:
    end = text.find("\n", match.start())
    line = text[text.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None]
    line = line.strip(": \t").removeprefix("Caused by: ")
    message = re.sub(r"\.\.$", ".", _PREFIXES.sub("", line).strip(": \t"))
    detail = next(filter(None, match.groups()), match[0]).strip().removesuffix(".")
    return {"line": line, "message": message, "detail": detail}
