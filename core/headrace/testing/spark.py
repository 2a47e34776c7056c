"""Pytest plugin with one Spark session for all tests, loaded with ``pytest_plugins = ["headrace.testing.spark"]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.java.jvm import without_new_archive
from headrace.runtime.session.session_builder import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.plugin import Plugin


@pytest.fixture(scope="session")
def headrace_plugins() -> Sequence[Plugin]:
    """Return the plugins whose jars and settings the session needs. Override it."""
    return []


@pytest.fixture(scope="session")
def headrace_conf() -> Mapping[str, str]:
    """Return more Spark settings. Override it; two cores and two partitions suit the small data of tests."""
    return {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def headrace_spark(headrace_plugins: Sequence[Plugin], headrace_conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session for ``headrace_plugins``. Override it to use your own session."""
    with without_new_archive():  # it would contain the classes of the plans of all tests
        session = build_session(list(headrace_plugins), headrace_conf)
    yield session
    session.stop()
