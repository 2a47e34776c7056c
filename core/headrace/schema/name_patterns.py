"""Validation of the names and globs by which options select columns and tables. ValueError for one that nothing can match."""

from __future__ import annotations

import re

#: Part of a table name, or of a glob of table names.
_TABLE_PART = re.compile(r"[\w*?!\[\]-]+")


def check_column_name(name: str) -> str:
    """Return the name of a column."""
    if not name.strip():
        raise ValueError(f"{name!r} is not a valid column name")
    return name


def check_field_path(path: str) -> str:
    """Return the name of a column, or the path of a field in it."""
    names = [name for name in path.split(".") if name.strip()]
    if not names:
        raise ValueError(f"{path!r} is not a valid column name")
    if len(names) <= path.count("."):
        raise ValueError(f"{path!r} is not a path of names: write {'.'.join(names)!r}")
    return path


def check_column_globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    """Return names and globs of columns and of paths of fields. ``?`` stands for a backquote, or a blank around a name."""
    if not globs:
        raise ValueError("names no column: write names or globs, as in [email, '*.phone']")
    for glob in globs:
        parts = glob.split(".")
        names = [name for part in parts if (name := part.replace("`", "").strip())]
        if names != parts:
            raise ValueError(f"{glob!r} matches no column: write {'.'.join(names) or 'email'!r}")
        if len(glob) > 2 and glob[0] == glob[-1] == "/":
            raise ValueError(f"{glob!r} matches no column: write a glob, as in '*email*', and no regular expression")
    return globs


def check_table_globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    """Return names and globs of tables."""
    for glob in globs:
        if not all(map(_TABLE_PART.fullmatch, glob.split("."))):
            raise ValueError(f"{glob!r} matches no table: write names or globs, as in [shop.people, 'crm.*']")
    return globs
