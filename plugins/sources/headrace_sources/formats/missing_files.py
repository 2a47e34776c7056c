"""Error of a file that was listed and is gone when it is read."""

from __future__ import annotations

from headrace.sdk import DataError


def make_missing_error(file: str) -> DataError:
    """Return the error of a listed file that no longer exists."""
    return DataError(
        "a listed file no longer exists",
        where=file,
        fix="restore it, or set `ignoreMissingFiles: true` next to `path:` to continue without it",
    )
