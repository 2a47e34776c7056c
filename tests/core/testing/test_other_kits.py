"""Kits of sources, dialects, formats and transforms.

A correct plugin passes, and each test fails only for plugins that are broken in that way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import broken_dialects, broken_formats, broken_sources, broken_transforms
from tests.support.kit_run import OTHER_FAILED_TESTS, Broken, find_failures, list_broken, list_tests

from headrace.sdk.plugin import Plugin
from headrace.testing.plugins import PluginConformance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Kit of a correct plugin → broken plugins.
KITS: dict[type[PluginConformance], Broken] = {
    broken_sources.LogKit: broken_sources.BROKEN,
    broken_dialects.ActionsKit: broken_dialects.BROKEN,
    broken_formats.CsvKit: broken_formats.BROKEN,
    broken_transforms.TrimKit: broken_transforms.BROKEN,
}
#: First broken plugin of each kit. `make test` runs the kit on it and on the correct plugin, `make test-all` on all.
FIRST: dict[type[PluginConformance], Broken] = {
    kit: {test: plugins[:1]} for kit, broken in KITS.items() for test, plugins in list(broken.items())[:1]
}
Failures = Callable[[type[PluginConformance], bool], Mapping[str, set[str]]]
of_each_kit = pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.__name__)


@pytest.fixture(scope="module")
def failures(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Failures:
    """Return a cached function that runs a kit on all of its broken plugins or on the first."""

    def run(kit: type[PluginConformance], run_all: bool) -> Mapping[str, set[str]]:
        return find_failures(kit, (KITS if run_all else FIRST)[kit], tmp_path_factory.mktemp("kit"), spark)

    return cache(run)


@of_each_kit
def test_each_test_fails_for_a_broken_plugin(kit: type[PluginConformance]) -> None:
    assert set(KITS[kit]) == list_tests(kit.__bases__[0])


@of_each_kit
def test_correct_plugin_passes(kit: type[PluginConformance], failures: Failures) -> None:
    assert failures(kit, False)[kit.plugin_class.__name__] == set()


def list_all(kits: Mapping[type[PluginConformance], Broken]) -> list[Any]:
    return [pytest.param(kit, *case.values, id=case.id) for kit, broken in kits.items() for case in list_broken(broken)]


@pytest.mark.parametrize(("kit", "test", "broken"), list_all(FIRST))
def test_first_broken_plugin_fails_the_test_of_what_it_breaks(
    kit: Any, test: str, broken: type[Plugin], failures: Failures
) -> None:
    assert failures(kit, False)[broken.__name__] == {test, *OTHER_FAILED_TESTS[broken]}


@pytest.mark.nightly
@pytest.mark.parametrize(("kit", "test", "broken"), list_all(KITS))
def test_broken_plugin_fails_only_the_expected_tests(
    kit: Any, test: str, broken: type[Plugin], failures: Failures
) -> None:
    assert failures(kit, True)[broken.__name__] == {test, *OTHER_FAILED_TESTS[broken]}
