"""Sessions for the sinks that write table files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.sessions import Sessions
from headrace_sinks.file_formats import ANCIENT_DATES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def sessions(spark: SparkSession) -> Sessions:
    """Return sessions as the engine passes them to sinks."""
    return Sessions(spark, ANCIENT_DATES)
