"""Selection of the kit tests that apply to a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


def claims(*capabilities: str) -> Callable[[Test], Test]:
    """Mark a test as collected only if the sink claims all of the capabilities."""
    applies = applies_if(lambda kit: all(getattr(kit.plugin_class.capabilities, name) for name in capabilities))

    def mark(test: Test) -> Test:
        test.__dict__["capabilities"] = capabilities
        return applies(test)

    return mark


def lacks(capability: str) -> Callable[[Test], Test]:
    """Mark a test as collected only if the sink does not claim the capability."""
    return applies_if(lambda kit: not getattr(kit.plugin_class.capabilities, capability))


def applies_if(condition: Callable[[Any], bool]) -> Callable[[Test], Test]:
    """Mark a test as collected only if ``condition`` is true for the kit's class."""

    def mark(test: Test) -> Test:
        test.__dict__["applies"] = condition
        return test

    return mark


def collect_what_applies(kit: type) -> None:
    """Set the tests of a kit that do not apply to None, so that pytest neither collects nor skips them.

    Tests that the kit's class defines itself stay.
    """
    for name in dir(kit):
        tests = (vars(base).get(name) for base in kit.__mro__)
        test = next((test for test in tests if hasattr(test, "applies")), None)
        if test is not None and name not in vars(kit):
            setattr(kit, name, test if test.applies(kit) else None)
