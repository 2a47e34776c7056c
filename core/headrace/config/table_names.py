"""Names of tables, as a pipeline file may write them."""

from __future__ import annotations

import re

_PART = re.compile(r"\w[\w-]*")


def check_table_name(name: str) -> str:
    """Return a dotted table name, or raise ValueError: names become paths and SQL identifiers."""
    if not name or not all(_PART.fullmatch(part) for part in name.split(".")):
        raise ValueError(f"{name!r} is not a table name: parts of letters, digits, '_' and '-', joined by '.'")
    return name
