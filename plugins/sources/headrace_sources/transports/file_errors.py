"""What Spark says of a file that is gone or damaged, as an error with the file's name."""

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
    """The file that a read failed for, where the error names one of ``path``: sinks read files, too."""
    if (missing := find_missing_file(error)) and is_under(missing, path):
        return DataError(
            "a file that was found is gone",
            where=missing,
            fix="put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it",
        )
    if match := _DAMAGED.search(full_text(error)):
        file = re.sub("^file:/+", "file:/", unquote(match[1] or match[2]))
        return error_of_damaged_file(file) if is_under(file, path) else None
    return None


def error_of_damaged_file(file: str) -> DataError:
    """Of a file that cannot be read to its end."""
    move = "move it out of the folder and set `ignoreMissingFiles: true` beside `path:`"
    fix = f"replace it by a whole one, or {move}; nothing of this batch was written"
    return DataError("the file is cut short or damaged", where=file, fix=fix)
