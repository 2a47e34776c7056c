from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace import ConfigError
from headrace.runtime.session.session_check import check_session
from headrace.runtime.session.spark_support import check_supported, list_lines, spark_line, spark_version
from headrace_sinks.hudi import HudiSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR = (
    "'hudi' has no jars for Spark 4.1: it has jars for Spark 3.5\n  fix: pip install 'pyspark==3.5.*', or set "
    "`spark.jars.packages` or `spark.jars` under `spark:` to its jars for Spark 4.1"
)


def test_spark_4_is_rejected() -> None:
    with pytest.raises(ConfigError) as caught:
        check_supported([HudiSink(path="lake")], "4.1.4")
    assert str(caught.value) == ERROR


def test_spark_3_is_accepted() -> None:
    check_supported([HudiSink(path="lake")], "3.5.9")


if spark_line(spark_version()) not in list_lines(HudiSink):

    @pytest.mark.spark
    def test_session_of_spark_4_is_rejected(spark: SparkSession) -> None:
        with pytest.raises(ConfigError) as caught:
            check_session(spark, [HudiSink(path="lake")])
        assert str(caught.value) == ERROR
