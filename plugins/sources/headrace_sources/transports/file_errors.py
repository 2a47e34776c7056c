"""Spark's errors about missing and damaged files, as errors with the file's name."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headrace.sdk import DataError
from headrace.sdk.error_text import find_missing_file, full_text
from headrace.sdk.storage import is_under

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
        return make_damage_error(file) if is_under(file, path) else None
    return None


def make_damage_error(file: str) -> DataError:
    """Return the error for a file that cannot be read to its end."""
    move = "move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"
    fix = f"replace it with a complete file, or {move}; nothing of this batch was written"
    return DataError("the file is truncated or damaged", where=file, fix=fix)
