"""Translation of Joda-Time patterns, as in Confluent's connector, into patterns of Java's formatter."""

from __future__ import annotations

import re

#: Letter of Joda-Time → letter of Java with the same meaning.
_LETTERS = {"Y": "y", **{letter: letter for letter in "yMdHhkKmsSaED"}}
#: A quoted string, a run of one letter, or any other character.
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']")


def translate_pattern(pattern: str, locale: str) -> str:
    """Translate a pattern; ValueError for unsupported letters, and for names in another language than English."""
    tokens = [match.group() for match in _TOKEN.finditer(pattern)]
    if "".join(tokens) != pattern:
        raise ValueError(f"`path.format` {pattern!r} has an unclosed quote")
    return "".join(_translate(token, pattern, locale) for token in tokens)


def list_folder_names(pattern: str) -> tuple[str, ...]:
    """List the partition names of a pattern: ``year`` for ``'year'=YYYY``; a folder without ``=`` as it is."""
    tokens = (match.group() for match in _TOKEN.finditer(pattern))
    # Letters of a timestamp are put in angle brackets, which no name contains.
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
        # These characters have a special meaning in Java.
        return f"'{token}'" if letter in "[]{}#" else token
    if letter not in _LETTERS:
        known = ", ".join(sorted(_LETTERS))
        raise ValueError(f"`path.format` {pattern!r} has the unsupported letters {token!r}; use {known}, and 'text'")
    is_name = letter in "aE" or (letter == "M" and len(token) > 2)
    if is_name and not re.fullmatch(r"en(?:[-_].*)?", locale):
        raise ValueError(f"`path.format` {pattern!r} has names, and `locale` {locale!r} is not English: use numbers")
    return _LETTERS[letter] * len(token)
