"""Sessions that headrace does not accept."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigError
from headrace.runtime.session.session_check import check_is_session

#: Stands in for the class of Spark Connect, whose module needs gRPC at import.
RemoteSession = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})


def test_session_of_spark_connect_is_rejected_with_the_reason() -> None:
    with pytest.raises(ConfigError) as caught:
        check_is_session(RemoteSession())
    assert str(caught.value) == (
        "spark: it is a session of Spark Connect, which has no access to the JVM of Spark. headrace needs it for streams, the "
        "checkpoint and the tables of its sinks\n"
        "  fix: pass a classic session, for example SparkSession.builder.master(…).getOrCreate() without SPARK_REMOTE; or submit the "
        "pipeline to the cluster with `headrace package`"
    )


def test_other_objects_are_rejected_by_type() -> None:
    with pytest.raises(ConfigError, match="must be of type SparkSession, and is of type str"):
        check_is_session("local")
