"""Tiers of the suite: `make test` skips tests marked ``nightly``, `make test-all` runs all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

_C = TypeVar("_C", bound=type)


def nightly_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return the values of one parameter, or tuples of several. Values after the first ``count`` are marked ``nightly``."""
    return [value if number < count else _mark_nightly(value) for number, value in enumerate(values)]


def nightly_tests(*names: str) -> Callable[[_C], _C]:
    """Return a decorator that marks tests of a class, which it may inherit from a kit, ``nightly``."""

    def mark(cls: _C) -> _C:
        for name in names:
            assert hasattr(cls, name), name
        cls.nightly_tests = frozenset(names)  # type: ignore[attr-defined]
        return cls

    return mark


def mark_nightly_tests(item: pytest.Item) -> None:
    """Mark a test that the class names in ``nightly_tests``."""
    if isinstance(item, pytest.Function) and item.originalname in getattr(item.cls, "nightly_tests", ()):
        item.add_marker(pytest.mark.nightly)


def _mark_nightly(value: Any) -> Any:
    if hasattr(value, "marks"):  # a pytest.param
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.nightly])
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.nightly)
