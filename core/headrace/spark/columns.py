"""Columns by name."""

from __future__ import annotations


def quote_name(name: str) -> str:
    """A column name as Spark's SQL reads it literally."""
    return "`" + name.replace("`", "``") + "`"
