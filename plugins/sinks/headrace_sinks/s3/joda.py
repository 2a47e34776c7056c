"""Patterns of times as Joda-Time has them, which Confluent's connector takes, for Java's own formatter."""

from __future__ import annotations

import re

#: Joda's letter → Java's, where they mean the same.
_LETTERS = {"Y": "y", **{letter: letter for letter in "yMdHhkKmsSaED"}}
#: A text in quotes, a run of one letter, or anything else.
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']")


def translate_pattern(pattern: str, locale: str) -> str:
    """The pattern for Java's formatter. ValueError for what that cannot say, and for names in another language than English."""
    tokens = [match.group() for match in _TOKEN.finditer(pattern)]
    if "".join(tokens) != pattern:
        raise ValueError(f"`path.format` {pattern!r} has a quote that does not end")
    return "".join(_translate(token, pattern, locale) for token in tokens)


def list_folder_names(pattern: str) -> tuple[str, ...]:
    """What stands before the ``=`` of each folder of the paths: ``year`` for ``'year'=YYYY``; the whole folder where none does."""
    tokens = (match.group() for match in _TOKEN.finditer(pattern))
    # Letters of a time become something that no name has.
    text = "".join(token[1:-1].replace("''", "'") if token[0] == "'" else _hide_time(token) for token in tokens)
    return tuple(
        name if mark and value else folder
        for folder in text.split("/")
        for name, mark, value in [folder.partition("=")]
    )


def _hide_time(token: str) -> str:
    return f"<{token}>" if token[0].isalpha() else token


def _translate(token: str, pattern: str, locale: str) -> str:
    letter = token[0]
    if not letter.isalpha():
        # Java has meanings of its own for these.
        return f"'{token}'" if letter in "[]{}#" else token
    if letter not in _LETTERS:
        known = ", ".join(sorted(_LETTERS))
        raise ValueError(
            f"`path.format` {pattern!r} has {token!r}, which is not supported; there are {known}, and 'text'"
        )
    is_name = letter in "aE" or (letter == "M" and len(token) > 2)
    if is_name and not re.fullmatch(r"en(?:[-_].*)?", locale):
        raise ValueError(f"`path.format` {pattern!r} has names, and `locale` {locale!r} is not English: use numbers")
    return _LETTERS[letter] * len(token)
