"""How settings come to Spark's JVM: not by its command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.jvm import PrivateFiles, to_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps]


def java_properties(spark: SparkSession, file: Path) -> dict[str, str]:
    """What Java reads, as Spark does: as UTF-8."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    reader = jvm.java.io.InputStreamReader(jvm.java.io.FileInputStream(str(file)), "UTF-8")
    properties.load(reader)
    reader.close()
    return {str(name): str(properties.getProperty(name)) for name in properties.stringPropertyNames()}


def test_no_setting_of_a_session_is_on_a_command_line(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    command = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/cmdline").read_text()
    assert spark.sparkContext.getConf().get("spark.sql.shuffle.partitions") == "2"
    assert "org.apache.spark.deploy.SparkSubmit" in command
    assert "shuffle.partitions" not in command
    assert "-Xmx3g" in command, "what Java has to know at its start, it does"
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_the_settings_are_in_no_file_of_a_disk_while_spark_runs(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    _, _, rest = str(jvm.java.lang.System.getProperty("sun.java.command")).partition("--properties-file ")
    path, name = rest.split()
    assert name == "pyspark-shell"
    assert path.startswith("/proc/self/fd/")
    pid = jvm.java.lang.ProcessHandle.current().pid()
    assert str(Path(path.replace("self", str(pid))).readlink()) == "/memfd:headrace (deleted)"


def test_where_every_file_has_a_name_nobody_else_may_read_it_and_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with PrivateFiles() as files:
        path = Path(files.add(b"a secret"))
        assert path.read_bytes() == b"a secret"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_java_reads_every_value_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    conf = {
        "spark.a": 'back\\slash "and" =:#! ',
        "spark.b:c": "two\nlines\tand ü…",
        "spark.c": "C:\\new\\users",
        "d": "",
    }
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.c  theirs\nspark.e  kept \\")
    file = tmp_path / "spark.properties"
    file.write_bytes(to_properties(conf, defaults))
    assert java_properties(spark, file) == {**conf, "spark.e": "kept "}
