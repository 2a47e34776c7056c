"""In this room plans are compiled, as in the sessions of users; and what needs what this Spark does not have is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.support import pipelines
from tests.support.spark_conf import compile_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# It writes into Hudi too, and refuses to start where there is none for this Spark.
collect_ignore = [] if "hudi" in pipelines.TABLE_SINKS else ["test_live_command.py"]


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    with compile_plans(spark):
        yield spark
