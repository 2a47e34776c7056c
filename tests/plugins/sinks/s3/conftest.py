"""Sessions for the sink ``s3``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.sessions import Sessions
from headrace_sinks.s3.s3_sink import S3Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def sessions(spark: SparkSession) -> Sessions:
    """Return sessions as the engine passes them to the sink."""
    return Sessions(spark, S3Sink.sql_conf)
