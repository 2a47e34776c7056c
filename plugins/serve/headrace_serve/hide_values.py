"""Error texts without values of rows."""

from __future__ import annotations

import re

#: Class of an error of Spark, such as ``[CAST_INVALID_INPUT]``. Its message quotes values.
_SPARK_ERROR = re.compile(r"\[[A-Z][A-Z0-9_]{3,}(\.[A-Z0-9_]+)*\]")
_QUOTED = re.compile(r"'(?:[^'\n]|'')*'|\"[^\"\n]*\"")


def hide_values(text: str) -> str:
    """Return an error text; without quoted texts if a message of Spark is in it."""
    found = _SPARK_ERROR.search(text)
    return text if found is None else text[: found.end()] + _QUOTED.sub("'…'", text[found.end() :])
