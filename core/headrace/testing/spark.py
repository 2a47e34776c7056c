"""A pytest plugin, loaded by ``pytest_plugins = ["headrace.testing.spark"]``: one Spark session for all tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.session.session_builder import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.plugin import Plugin


@pytest.fixture(scope="session")
def headrace_plugins() -> Sequence[Plugin]:
    """Override it: the plugins whose jars and settings the session needs."""
    return []


@pytest.fixture(scope="session")
def headrace_conf() -> Mapping[str, str]:
    """Override it: further settings of Spark's. Two cores and two partitions suit tests, whose data are small."""
    return {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def headrace_spark(headrace_plugins: Sequence[Plugin], headrace_conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session that fits ``headrace_plugins``. Override it to bring your own."""
    session = build_session(list(headrace_plugins), headrace_conf)
    yield session
    session.stop()
