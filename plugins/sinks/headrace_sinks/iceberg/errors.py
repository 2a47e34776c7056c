"""Errors of Iceberg's in headrace's words."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sdk import ConfigError, HeadraceError, RetriableError, full_text


@dataclass(frozen=True)
class _KnownError:
    """An error that Iceberg is known to raise.

    ``signs``: any of them in a line of its text. ``sentence``: what headrace says; in it ``{line}`` is that line, and
    ``{message}`` what stands behind the exception's class in it.
    """

    signs: tuple[str, ...]
    error: type[HeadraceError]
    sentence: str
    fix: str
    where: str | None = None


_KNOWN = (
    # Somebody else committed between the read and the commit of a write.
    _KnownError(
        (
            "CommitFailedException",
            "CommitStateUnknownException",
            "AlreadyExistsException",
            "TableAlreadyExistsException",
            "ValidationException: Found conflicting files",
            "ValidationException: Found new conflicting delete files",
            "ValidationException: Found new delete for replaced data file",
            "ValidationException: Cannot commit, missing data files",
        ),
        RetriableError,
        "another writer committed at the same time: {line}",
        "nothing is lost; start the pipeline again",
    ),
    _KnownError(
        ("Cannot find snapshot", "Cannot find a snapshot"),
        ConfigError,
        "there is no such version: {line}",
        "take a version from `headrace show`, or a later time",
    ),
    _KnownError(
        ("Invalid source type",),
        ConfigError,
        "the table cannot be partitioned so: {message}",
        "years, months and days are of dates or timestamps, hours of timestamps; name another column",
        where="sink iceberg, partition.by",
    ),
    _KnownError(
        ("ParentNotDirectoryException",),
        ConfigError,
        "the tables' folder cannot be made, a file stands in its way: {message}",
        "correct `warehouse`, or remove that file",
    ),
)


def translate(error: BaseException) -> HeadraceError | None:
    """The error for users; None when it is none that Iceberg is known to raise."""
    lines = full_text(error).splitlines()
    for known in _KNOWN:
        line = next((line.strip() for line in lines if any(sign in line for sign in known.signs)), None)
        if line is not None:
            message = line.strip(": \t").split("Exception: ")[-1]
            return known.error(known.sentence.format(line=line, message=message), where=known.where, fix=known.fix)
    return None
