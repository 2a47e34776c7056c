"""The kit of sources passes one that is right, and each of its tests fails who breaks what it tests, and nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from tests.support.broken_sources import BROKEN, Log, LogKit
from tests.support.kit_run import ALSO, find_failures, list_broken, list_tests

from headrace.sdk.plugin import Plugin
from headrace.testing.sources import SourceConformance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.fixture(scope="module")
def failures(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    return find_failures(LogKit, BROKEN, tmp_path_factory.mktemp("kit"), spark)


def test_every_test_has_a_source_that_it_fails() -> None:
    assert set(BROKEN) == list_tests(SourceConformance)


def test_one_that_is_right_passes(failures: Mapping[str, set[str]]) -> None:
    assert failures[Log.__name__] == set()


@pytest.mark.parametrize(("test", "broken"), list_broken(BROKEN))
def test_a_broken_source_fails_the_test_of_what_it_breaks(
    test: str, broken: type[Plugin], failures: Mapping[str, set[str]]
) -> None:
    assert failures[broken.__name__] == {test, *ALSO[broken]}
