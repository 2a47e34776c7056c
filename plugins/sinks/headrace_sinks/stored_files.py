"""Files of tables that are gone while somebody works on them."""

from __future__ import annotations

from headrace.sdk import RetriableError
from headrace.sdk.error_text import find_missing_file
from headrace.sdk.storage import is_under


def explain_missing_file(error: BaseException, folder: str) -> RetriableError | None:
    """The file of a table in ``folder`` that an error says is not there; None when it is of somewhere else."""
    file = find_missing_file(error)
    if file is None or not is_under(file, folder):
        return None
    return RetriableError(
        f"a file of the table is gone: {file}",
        fix="see that no other pipeline and no cleaner works on this table at the same time; nothing is lost, and it is tried again",
    )
