"""Observations of rows that are read without a Spark SQL action."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from headrace.spark.observation import Observation
from headrace.spark.sessions import Sessions, read_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps]


def test_observations_are_complete_after_the_rows_were_read(spark: SparkSession) -> None:
    session = Sessions(spark).of("read")
    observation = Observation(rows=F.count(F.lit(1)), most=F.max("id"))
    rows = session.range(10).groupBy((F.col("id") % 4).alias("id")).agg(F.count("*").alias("n"))
    with read_once(observation.observe(rows)) as once:
        found = once.rdd.map(tuple).collect()
    assert sorted(found) == [(0, 3), (1, 3), (2, 2), (3, 2)]
    assert observation.result() == {"rows": 4, "most": 3}
