"""Spark's errors about missing and damaged files, as errors with the file's name."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headrace.sdk import DataError
from headrace.sdk.error_text import find_missing_file, full_text
from headrace.sdk.storage import is_under
from headrace_sources.formats.oversized_data import ERRORS

_DAMAGED = re.compile(
    r"Encountered error while reading file (\w+:\S+?)\.?(?:\s|$)|\[FAILED_READ_FILE\S*\].* (\w+:/\S+?)\.?(?:\s|$)"
)


def explain_read_error(error: BaseException, path: str) -> DataError | None:
    """Return the error for a missing or damaged file under ``path``; None for other files, which a sink may have read."""
    if (missing := find_missing_file(error)) and is_under(missing, path):
        return DataError(
            "a listed file no longer exists",
            where=missing,
            fix="restore it, or set `ignoreMissingFiles: true` next to `path:` to continue without it",
        )
    if match := _DAMAGED.search(full_text(error)):
        file = re.sub("^file:/+", "file:/", unquote(match[1] or match[2]))
        return make_damage_error(file, error) if is_under(file, path) else None
    return None


def make_damage_error(file: str, error: BaseException) -> DataError:
    """Return the error for a file that cannot be read to its end, from the error of its reader."""
    is_oversized = any(name in full_text(error) for name in ERRORS)
    what = (
        "a block or a line of the file is too large for the memory"
        if is_oversized
        else "the file is truncated or damaged"
    )
    move = "move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"
    fix = f"replace it with a complete file, or {move}; nothing of this batch was written"
    return DataError(what, where=file, fix=fix)
