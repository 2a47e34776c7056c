from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    """The suite's one session, under the name by which the kit asks for it."""
    return spark
