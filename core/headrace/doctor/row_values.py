"""Removal of values of rows from texts: errors of databases and of Spark quote them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

HIDDEN_VALUE = "…"
_QUOTED = re.compile(r"'(?:[^'\n]|'')*'|\"(?:[^\"\\\n]|\\.)*\"")
#: Values of a key in messages of databases: `Key (id)=(5) already exists`.
_KEY_VALUES = re.compile(r"\)\s*=\s*\([^()\n]*\)")
#: Values behind a colon at the end of a message: `invalid value: 42`.
_AT_END = re.compile(r"(\bvalue\w*\b[^:\n]*:\s*)\S.*", re.IGNORECASE)


#: Class of an error of Spark, whose message may have numbers of rows.
_SPARK_ERROR = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\]")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d(?:[\d.,:eE+-]*\d)?")


def hide_row_values(text: str, names: Collection[str]) -> str:
    """Return a text without values in quotes and of keys, and without numbers in a message of Spark. ``names``: texts in quotes that stay, such as the names of tables and columns."""

    def hide(match: re.Match[str]) -> str:
        quote = match[0][0]
        return match[0] if match[0][1:-1] in names else f"{quote}{HIDDEN_VALUE}{quote}"

    text = _KEY_VALUES.sub(f")=({HIDDEN_VALUE})", _QUOTED.sub(hide, text))
    text = _AT_END.sub(rf"\1{HIDDEN_VALUE}", text)
    if error := _SPARK_ERROR.search(text):
        text = text[: error.end()] + _NUMBER.sub(HIDDEN_VALUE, text[error.end() :])
    return text


def hide_in(value: object, clean: Callable[[str], str]) -> object:
    """Return a value of JSON with ``clean`` applied to its texts, except keys."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: hide_in(item, clean) for key, item in value.items()}
    return [hide_in(item, clean) for item in value] if isinstance(value, list | tuple) else value
