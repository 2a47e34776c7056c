"""Columns by name."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A column name as Spark's SQL reads it literally."""
    return "`" + name.replace("`", "``") + "`"
