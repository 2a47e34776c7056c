"""Policy that decides whether failed tables stop the run."""

from __future__ import annotations

import pytest

from headrace.engine.run.failure_policy import find_fatal_error
from headrace.errors import ConfigError, HeadraceError, RetriableError, RuleError

BROKEN, UNREACHABLE, RULE = ConfigError("broken"), RetriableError("away"), RuleError("rule")


@pytest.mark.parametrize(
    ("errors", "deferred", "healthy", "stops"),
    [
        ({}, [], False, None),
        ({"a": BROKEN}, [], True, None),
        ({"a": BROKEN}, [], False, BROKEN),
        ({"a": UNREACHABLE}, [], False, None),
        ({"a": UNREACHABLE, "b": BROKEN}, [], False, UNREACHABLE),
        ({"a": UNREACHABLE}, ["a"], True, UNREACHABLE),
        ({"a": UNREACHABLE}, ["b"], True, None),
        ({"a": UNREACHABLE, "b": RULE}, [], True, RULE),
    ],
    ids=[
        "no table failed",
        "other tables are healthy",
        "no table is healthy",
        "its server is unreachable",
        "one of several errors is permanent",
        "its backlog cannot be written",
        "another table is deferred",
        "a rule stops the run",
    ],
)
def test_error_that_stops_the_run(
    errors: dict[str, HeadraceError], deferred: list[str], healthy: bool, stops: HeadraceError | None
) -> None:
    assert find_fatal_error(errors, deferred, has_healthy_tables=healthy) is stops
