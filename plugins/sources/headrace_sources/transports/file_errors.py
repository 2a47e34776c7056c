"""What Spark says of a file that is gone or damaged, as an error with the file's name."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headrace.sdk import DataError, full_text

_MISSING = re.compile(
    r"Path does not exist: (\w+:.+?)\.?(?: SQLSTATE: \w+)?$|File does not exist: (\S+)|File (\w+:.+?) does not exist",
    re.MULTILINE,
)
_DAMAGED = re.compile(
    r"Encountered error while reading file (\w+:\S+?)\.?(?:\s|$)|\[FAILED_READ_FILE\S*\].* (\w+:/\S+?)\.?(?:\s|$)"
)


def explain_read_error(error: BaseException) -> DataError | None:
    """The file that a read failed for, where the error names one."""
    text = full_text(error)
    if match := _MISSING.search(text):
        return DataError(
            "a file that was found is gone",
            where=match[1] or match[2] or match[3],
            fix="put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it",
        )
    if match := _DAMAGED.search(text):
        return error_of_damaged_file(re.sub("^file:/+", "file:/", unquote(match[1] or match[2])))
    return None


def error_of_damaged_file(file: str) -> DataError:
    """Of a file that cannot be read to its end."""
    move = "move it out of the folder and set `ignoreMissingFiles: true` beside `path:`"
    fix = f"replace it by a whole one, or {move}; nothing of this batch was written"
    return DataError("the file is cut short or damaged", where=file, fix=fix)
