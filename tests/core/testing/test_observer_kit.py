"""Kit of observers: a correct observer passes, and each test fails only for observers that are broken in that way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.support.broken_observers import BROKEN, EventLog, EventLogKit
from tests.support.kit_run import OTHER_FAILED_TESTS, find_failures, list_broken, list_tests

from headrace.engine.run import observers as engine
from headrace.sdk.plugin import Plugin
from headrace.testing import observers
from headrace.testing.observers import ObserverConformance


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, set[str]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observers, "_PATIENCE", 2.0)
        patch.setattr(engine, "CLOSE_SECONDS", 0.5)
        yield find_failures(EventLogKit, BROKEN, tmp_path_factory.mktemp("kit"))


def test_each_test_fails_for_a_broken_observer() -> None:
    assert set(BROKEN) == list_tests(ObserverConformance)


def test_correct_observer_passes(failures: Mapping[str, set[str]]) -> None:
    assert failures[EventLog.__name__] == set()


@pytest.mark.parametrize(("test", "broken"), list_broken(BROKEN))
def test_broken_observer_fails_only_the_expected_tests(
    test: str, broken: type[Plugin], failures: Mapping[str, set[str]]
) -> None:
    assert failures[broken.__name__] == {test, *OTHER_FAILED_TESTS[broken]}
