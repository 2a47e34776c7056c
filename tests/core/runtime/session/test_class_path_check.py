"""Jars of a running session: two of a plugin, and jars for another Spark or Scala."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from headrace.errors import ConfigError
from headrace.runtime.session.class_path_check import check_class_path, check_files, check_java
from headrace.runtime.session.session_check import check_session
from headrace.spark.sessions import find_java_release, list_class_files
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = ("org.lake:lake-spark-3.5_2.12:1.2.0", "org.lake:lake-aws:1.2.0")


def error_of(*files: str, coordinates: Sequence[str] = WANTED) -> str | None:
    try:
        check_files("lake", coordinates, files, "3.5.9")
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "files",
    [
        (),
        ("/cache/lake-spark-3.5_2.12-1.2.0.jar",),
        ("/cache/lake-spark-3.5_2.12-1.1.0.jar",),  # another version is the choice of the user
        ("/cache/lake-spark-3.5_2.12-1.2.0.jar", "/tmp/userFiles-1/lake-spark-3.5_2.12-1.2.0.jar"),
        ("/usr/lib/vendor/lake-all.jar",),
        ("/cache/lake-spark_2.12-1.2.0.jar",),  # a project may leave out its default version of Spark
        ("/root/.ivy2/jars/org.lake_lake-spark-3.5_2.12-1.2.0.jar", "/cache/lake-spark-3.5_2.12-1.2.0.jar"),
        ("/opt/classes/", "/cache/lake-aws-1.2.0.jar"),
    ],
    ids=str,
)
def test_fitting_jars(files: Sequence[str]) -> None:
    assert error_of(*files) is None


def test_two_different_jars() -> None:
    assert error_of("/usr/lib/spark/jars/lake-all.jar", "/cache/lake-spark-3.5_2.12-1.2.0.jar") == (
        "the class path of Spark: the class path has 2 different jars of 'lake', and Java uses the first one: "
        "/usr/lib/spark/jars/lake-all.jar, /cache/lake-spark-3.5_2.12-1.2.0.jar\n"
        "  fix: remove all but one: from `spark.jars`, `spark.jars.packages`, `spark.driver.extraClassPath`, or the folder `jars` "
        "of Spark"
    )


@pytest.mark.parametrize("jar", ["lake-spark-4.0_2.13-1.2.0.jar", "lake-spark-3.5_2.13-1.2.0.jar"])
def test_jar_for_another_spark_or_scala(jar: str) -> None:
    assert error_of(f"/cache/{jar}") == (
        f"/cache/{jar}: {jar} is a jar for another Spark or Scala: on Spark 3.5.9, 'lake' requires lake-spark-3.5_2.12\n"
        "  fix: replace it with org.lake:lake-spark-3.5_2.12:1.2.0"
    )
    assert f"{jar} is a jar for another Spark" in str(error_of(f"/root/.ivy2/jars/org.lake_{jar}"))
    scala_only = ("org.lake:lake_2.12:1",)
    assert error_of("/cache/lake_2.13-1.jar", coordinates=scala_only)
    assert error_of("/cache/lake_3.5_2.12-2.jar", coordinates=scala_only) is None
    assert error_of("/cache/lake_4.0_2.12-2.jar", coordinates=scala_only)
    assert error_of("/cache/lake_2.12-2.jar", coordinates=scala_only) is None


@pytest.mark.spark
@pytest.mark.one_spark
def test_class_path_of_a_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = IcebergSink(warehouse="/tmp")
    assert IcebergSink.jvm_class
    (jar,) = list_class_files(spark, IcebergSink.jvm_class)
    assert jar.startswith("/")
    assert "spark-runtime" in jar
    assert list_class_files(spark, "org.example.Missing") == []
    check_class_path(spark, [sink])
    assert find_java_release(spark) >= 17
    # The machine may have no older Java, so this session claims to be on one that does not load the class.
    checks = "headrace.runtime.session.class_path_check"
    monkeypatch.setattr(f"{checks}.find_java_release", lambda spark: 11)
    check_java(spark, [sink])
    monkeypatch.setattr(f"{checks}.has_class", lambda spark, name: False)
    with pytest.raises(ConfigError) as caught:
        check_session(spark, [sink])
    assert str(caught.value) == (
        f"the session of the caller: the session runs on Java 11, which cannot load {jar}: 'iceberg' requires Java 17\n"
        "  fix: set JAVA_HOME to a Java 17 before Spark starts; on a cluster, also for its executors"
    )
