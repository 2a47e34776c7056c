"""Kit of all plugins.

A correct plugin passes, and each test fails only for plugins that are broken in that way.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.broken_auth_plugins import BROKEN, AuthKit, Login
from tests.support.imports_spark import ImportsSpark
from tests.support.kit_run import find_failures, list_broken, list_tests
from tests.support.reaches_out import ReachesOutAtImport

from headrace.sdk.plugin import Plugin
from headrace.testing.plugins import PluginConformance

# These plugins are in separate modules, because importing them is what fails.
BROKEN["test_plugin_is_picklable"] += [ImportsSpark, ReachesOutAtImport]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    return find_failures(AuthKit, BROKEN, tmp_path_factory.mktemp("kit"))


def test_each_test_fails_for_a_broken_plugin() -> None:
    assert set(BROKEN) == list_tests(PluginConformance)


def test_correct_plugin_passes(failures: Mapping[str, set[str]]) -> None:
    assert failures[Login.__name__] == set()


@pytest.mark.parametrize(("test", "broken"), list_broken(BROKEN))
def test_broken_plugin_fails_only_the_expected_test(
    test: str, broken: type[Plugin], failures: Mapping[str, set[str]]
) -> None:
    assert failures[broken.__name__] == {test}
