"""Files of a table that disappear during a read or write."""

from __future__ import annotations

from headrace.sdk import RetriableError
from headrace.sdk.error_text import find_missing_file
from headrace.sdk.storage import is_under

MISSING_FILE_FIX = "check that no other pipeline and no cleanup job changes this table at the same time; nothing is lost, and the batch is retried"


def explain_missing_file(error: BaseException, folder: str) -> RetriableError | None:
    """Explain an error about a missing file in ``folder``; None for files elsewhere."""
    file = find_missing_file(error)
    if file is None or not is_under(file, folder):
        return None
    return RetriableError(
        f"a file of the table is missing: {file}",
        fix=MISSING_FILE_FIX,
    )
