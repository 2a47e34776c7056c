"""The kit of every plugin passes one that is right, and each of its tests fails who breaks what it tests, and nobody else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.broken_logins import BROKEN, Login, LoginKit
from tests.support.imports_spark import ImportsSpark
from tests.support.kit_run import find_failures, list_broken, list_tests
from tests.support.reaches_out import ReachesOutAtImport

from headrace.sdk.plugin import Plugin
from headrace.testing.plugins import PluginConformance

# They are from modules of their own: what importing these does is what is wrong.
BROKEN["test_plugin_is_picklable"] += [ImportsSpark, ReachesOutAtImport]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    return find_failures(LoginKit, BROKEN, tmp_path_factory.mktemp("kit"))


def test_every_test_has_a_plugin_that_it_fails() -> None:
    assert set(BROKEN) == list_tests(PluginConformance)


def test_one_that_is_right_passes(failures: Mapping[str, set[str]]) -> None:
    assert failures[Login.__name__] == set()


@pytest.mark.parametrize(("test", "broken"), list_broken(BROKEN))
def test_a_broken_plugin_fails_the_test_of_what_it_breaks(
    test: str, broken: type[Plugin], failures: Mapping[str, set[str]]
) -> None:
    assert failures[broken.__name__] == {test}
