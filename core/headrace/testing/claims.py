"""Which tests of the kit a sink has to pass: those of what it claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.sdk.sink import Capabilities

Test = TypeVar("Test", bound=Callable[..., None])


def claims(*capabilities: str) -> Callable[[Test], Test]:
    """A test of what a sink claims: collected when it claims all of it."""
    return _apply_if(lambda claimed: all(getattr(claimed, name) for name in capabilities))


def lacks(capability: str) -> Callable[[Test], Test]:
    """A test that a sink refuses what it does not claim."""
    return _apply_if(lambda claimed: not getattr(claimed, capability))


def _apply_if(condition: Callable[[Capabilities], bool]) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        test.__dict__["applies"] = condition
        return test

    return mark
