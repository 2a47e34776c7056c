from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.runtime.session.session_builder import spark_line, spark_version
from headrace.spark.sessions import Sessions
from headrace_sinks.file_formats import ANCIENT_DATES
from headrace_sinks.hudi import HudiSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where Hudi is refused, test_hudi_refused.py is what can be tested of it.
collect_ignore = ["test_hudi.py", "test_hudi_readers.py"] if spark_line(spark_version()) in HudiSink.refuses else []


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    """The suite's one session, under the name by which the kit asks for it."""
    return spark


@pytest.fixture(scope="module")
def clones(spark: SparkSession) -> Sessions:
    """Sessions as the engine gives them to sinks."""
    return Sessions(spark, ANCIENT_DATES)
