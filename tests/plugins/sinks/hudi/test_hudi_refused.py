from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace import ConfigError
from headrace.runtime.session.session_builder import check_supported, spark_line, spark_version
from headrace.runtime.session.session_check import check_session
from headrace_sinks.hudi import HudiSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR = "'hudi' does not work on Spark 4.0: Hudi is supported on Spark 3.5 only\n  fix: pip install 'pyspark==3.5.7'"


def test_spark_4_is_rejected() -> None:
    with pytest.raises(ConfigError) as caught:
        check_supported([HudiSink(path="lake")], "4.0")
    assert str(caught.value) == ERROR


def test_spark_3_is_accepted() -> None:
    check_supported([HudiSink(path="lake")], "3.5")


if spark_line(spark_version()) in HudiSink.refuses:

    @pytest.mark.spark
    def test_session_of_spark_4_is_rejected(spark: SparkSession) -> None:
        with pytest.raises(ConfigError) as caught:
            check_session(spark, [HudiSink(path="lake")])
        assert str(caught.value) == ERROR
