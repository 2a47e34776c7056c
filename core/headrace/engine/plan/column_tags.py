"""Tags of columns, and of fields in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from types import MappingProxyType

from headrace.spark.columns import fold_name


class ColumnTags:
    """Tag → patterns of columns and of paths of fields. A pattern is a name or a glob, with or without a table before it.

    Names of columns are compared without case, also in a case-sensitive session: a tag rather names a column too many.
    """

    def __init__(self, patterns: Mapping[str, Collection[str]] = MappingProxyType({})) -> None:
        self._patterns = {tag: tuple(names) for tag, names in patterns.items()}

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def __str__(self) -> str:
        return str(sorted((tag, sorted(names)) for tag, names in self._patterns.items()))

    def find(self, table: str | None, columns: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return every tag → the columns of a table that have it. In an unknown table (None), patterns of all tables apply."""
        columns = list(columns)
        return {
            tag: frozenset(
                column for column in columns if any(_matches(pattern, table, column) for pattern in patterns)
            )
            for tag, patterns in self._patterns.items()
        }

    def find_inside(self, table: str | None, columns: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return every tag → the paths that it names below columns of a table. A path that begins with a glob is in no column."""
        columns = () if table is None else columns
        folded = {f"{fold_name(column)}.": column for column in columns}
        return {
            tag: frozenset(
                f"{column}.{path.removeprefix(start)}"
                for path in map(partial(_remove_table, fold_name(table or "")), map(fold_name, patterns))
                for start, column in folded.items()
                if path.startswith(start)
            )
            for tag, patterns in self._patterns.items()
        }

    def list_columns(self, table: str | None, columns: Iterable[str]) -> frozenset[str]:
        """Return the columns of a table that have a tag."""
        return frozenset().union(*self.find(table, columns).values())

    def find_unused(self, tables: Mapping[str | None, Collection[str]]) -> list[tuple[str, str]]:
        """Return the tags and patterns that match no column. ``tables``: table → its columns."""
        return [
            (tag, pattern)
            for tag, patterns in self._patterns.items()
            for pattern in patterns
            if not any(_matches(pattern, table, column) for table, columns in tables.items() for column in columns)
        ]


def _remove_table(table: str, pattern: str) -> str:
    """Return a pattern without the names before its column, if they are those of the table."""
    names = pattern.split(".")
    starts = (start for start in range(1, len(names)) if fnmatchcase(table, ".".join(names[:start])))
    return ".".join(names[next(starts, 0) :])


def _matches(pattern: str, table: str | None, column: str) -> bool:
    pattern, column = fold_name(pattern), fold_name(column)
    # The element of a list may be named before its field, as in masks.
    patterns = {pattern, pattern.replace(".element.", ".")}
    if table is None:  # The first names of the pattern may be those of a table.
        names = pattern.split(".")
        patterns |= {".".join(names[start:]) for start in range(1, len(names))}
    columns = [column] if table is None else [column, f"{fold_name(table)}.{column}"]
    return any(fnmatchcase(name, each) for name in columns for each in patterns)
