"""What tables that failed mean for the run."""

from __future__ import annotations

import pytest

from headrace.engine.run.failure_policy import find_fatal_error
from headrace.errors import ConfigError, HeadraceError, RetriableError, RuleError

BROKEN, AWAY, RULE = ConfigError("broken"), RetriableError("away"), RuleError("rule")


@pytest.mark.parametrize(
    ("errors", "set_aside", "healthy", "stops"),
    [
        ({}, [], False, None),
        ({"a": BROKEN}, [], True, None),
        ({"a": BROKEN}, [], False, BROKEN),
        ({"a": AWAY}, [], False, None),
        ({"a": AWAY, "b": BROKEN}, [], False, AWAY),
        ({"a": AWAY}, ["a"], True, AWAY),
        ({"a": AWAY}, ["b"], True, None),
        ({"a": AWAY, "b": RULE}, [], True, RULE),
    ],
    ids=[
        "nothing failed",
        "others go on",
        "no other is left",
        "its server is away",
        "one of several will not come back",
        "its backlog could not be written",
        "another is set aside",
        "the file says stop",
    ],
)
def test_the_error_that_stops_the_run(
    errors: dict[str, HeadraceError], set_aside: list[str], healthy: bool, stops: HeadraceError | None
) -> None:
    assert find_fatal_error(errors, set_aside, has_healthy_tables=healthy) is stops
