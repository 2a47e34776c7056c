"""Which tests of a kit a plugin has to pass: those of what it claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


def claims(*capabilities: str) -> Callable[[Test], Test]:
    """A test of what a sink claims: collected when it claims all of it."""
    applies = applies_if(lambda kit: all(getattr(kit.plugin_class.capabilities, name) for name in capabilities))

    def mark(test: Test) -> Test:
        test.__dict__["capabilities"] = capabilities
        return applies(test)

    return mark


def lacks(capability: str) -> Callable[[Test], Test]:
    """A test that a sink refuses what it does not claim."""
    return applies_if(lambda kit: not getattr(kit.plugin_class.capabilities, capability))


def applies_if(condition: Callable[[Any], bool]) -> Callable[[Test], Test]:
    """A test that is collected when ``condition`` holds for the kit's class."""

    def mark(test: Test) -> Test:
        test.__dict__["applies"] = condition
        return test

    return mark


def collect_what_applies(kit: type) -> None:
    """Sets the tests of a kit that do not apply to None: pytest collects functions only, so that they are absent and not skipped.

    What the kit's class has of its own stays.
    """
    for name in dir(kit):
        tests = (vars(base).get(name) for base in kit.__mro__)
        test = next((test for test in tests if hasattr(test, "applies")), None)
        if test is not None and name not in vars(kit):
            setattr(kit, name, test if test.applies(kit) else None)
