"""Findings about a database, and the tables that a connector captures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_ITEM = re.compile(r"(?:\\.|[^,])+", re.DOTALL)


class Finding(NamedTuple):
    """Setting that loses changes, or may lose them later (``is_warning``), and the statement that fixes it."""

    what: str
    statement: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{'warning' if self.is_warning else 'error'}: {self.what}: {self.statement}"


def choose_tables(options: Mapping[str, str], tables: Iterable[str]) -> list[str]:
    """Return those of ``tables`` that the connector captures. Debezium's patterns match whole names, in any case."""
    return [table for table in tables if _is_captured(options, table)]


def find_missing_tables(
    options: Mapping[str, str],
    tables: Iterable[str],
    *,
    fix: str = "correct `table.include.list`, or create the table",
) -> list[Finding]:
    """Return a finding for each item of ``table.include.list`` that none of the captured ``tables`` matches.

    Without such items, one finding if the lists of schemas and databases leave no table.
    """
    known, items = list(tables), list_items(options, "table.include.list")
    missing = [item for item in items if not any(_matches(item, table) for table in known)]
    found = [Finding(f"no table matches {item!r}", fix) for item in missing]
    outer = [f"`{key}`" for key in ("schema.include.list", "database.include.list") if list_items(options, key)]
    if outer and not known and not items:
        found.append(Finding("the connector captures no table", f"correct {' or '.join(outer)}"))
    return found


def has_key_option(options: Mapping[str, str], *names: str) -> bool:
    """Return whether ``message.key.columns`` has columns for a table with these names."""
    patterns = [item.rpartition(":")[0].strip() for item in options.get("message.key.columns", "").split(";")]
    return any(_matches(pattern, name) for pattern in patterns for name in names)


def is_captured_column(options: Mapping[str, str], column: str) -> bool:
    """Return whether the lists of columns leave the column in the events."""
    included, excluded = list_items(options, "column.include.list"), list_items(options, "column.exclude.list")
    if any(_matches(item, column) for item in excluded):
        return False
    return not included or any(_matches(item, column) for item in included)


def list_items(options: Mapping[str, str], key: str) -> list[str]:
    r"""Return the items of a list that is separated by commas. ``\,`` is a comma of an item."""
    items = (item.strip().replace(r"\,", ",") for item in _ITEM.findall(options.get(key, "")))
    return [item for item in items if item]


def _is_captured(options: Mapping[str, str], table: str) -> bool:
    if table == options.get("signal.data.collection"):
        return False
    outer = table.partition(".")[0]
    for key, name in (("table", table), ("schema", outer), ("database", outer)):
        included, excluded = list_items(options, f"{key}.include.list"), list_items(options, f"{key}.exclude.list")
        if included and not any(_matches(item, name) for item in included):
            return False
        if any(_matches(item, name) for item in excluded):
            return False
    return True


def _matches(item: str, name: str) -> bool:
    try:
        return re.fullmatch(item, name, re.IGNORECASE) is not None
    except re.error:  # Java's syntax
        return item == name
