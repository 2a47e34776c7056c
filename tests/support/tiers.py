"""Tiers of the suite: `make test` skips tests marked ``nightly``, `make test-all` runs all tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def nightly_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return the values of one parameter, or tuples of several. Values after the first ``count`` are marked ``nightly``."""
    return [value if number < count else _mark_nightly(value) for number, value in enumerate(values)]


def _mark_nightly(value: Any) -> Any:
    if hasattr(value, "marks"):  # a pytest.param
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.nightly])
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.nightly)
