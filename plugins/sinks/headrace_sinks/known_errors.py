"""Errors of libraries that are known, by a sign in their text, and what headrace says instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.sdk import HeadraceError
from headrace.sdk.error_text import full_text


@dataclass(frozen=True)
class KnownError:
    """An error that a library is known to raise.

    ``signs``: any of them in a line of its text. ``sentence``: what headrace says; in it ``{line}`` is that line, and
    ``{message}`` what stands behind the exception's class in it.
    """

    signs: tuple[str, ...]
    error: type[HeadraceError]
    sentence: str
    fix: str
    where: str | None = None


def find_known(error: BaseException, known: Iterable[KnownError]) -> HeadraceError | None:
    """The error for users, by the first that fits; None when none does."""
    lines = full_text(error).splitlines()
    for one in known:
        line = next((line.strip() for line in lines if any(sign in line for sign in one.signs)), None)
        if line is not None:
            message = line.strip(": \t").split("Exception: ")[-1]
            return one.error(one.sentence.format(line=line, message=message), where=one.where, fix=one.fix)
    return None
