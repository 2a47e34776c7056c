from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.sessions import Sessions
from headrace_aws.s3.sink import S3Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    """The session of headrace's own tests, for the kit."""
    return spark


@pytest.fixture(scope="module")
def clones(spark: SparkSession) -> Sessions:
    """Sessions as the engine gives them to the sink."""
    return Sessions(spark, S3Sink.sql_conf)
