"""Columns in options of rules: one name, or a list of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def read_one_or_many(value: Any) -> Any:
    """Return a single name as a list of one. Any other value stays."""
    return (value,) if isinstance(value, str) else value


def check_distinct_columns(names: Sequence[str]) -> None:
    """Raise ValueError for a column that is named twice."""
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"names the column {repeated[0]!r} more than once")
