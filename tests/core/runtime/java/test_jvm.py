"""Settings of Spark's JVM, which are not on its command line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from headrace.runtime.jars.ivy import spark_home
from headrace.runtime.java import jvm
from headrace.runtime.java.jvm import JAVA_OPTIONS, list_class_path, start_jvm, without_new_archive
from headrace.runtime.java.private_files import PrivateFiles, to_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps]


def java_properties(spark: SparkSession, file: Path) -> dict[str, str]:
    """Read a properties file with Java as UTF-8, like Spark."""
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
    assert "-Xmx3g" in command, "memory options are on the command line"
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_settings_are_in_an_anonymous_file(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    _, _, rest = str(jvm.java.lang.System.getProperty("sun.java.command")).partition("--properties-file ")
    path, name = rest.split()
    assert name == "pyspark-shell"
    assert path.startswith("/proc/self/fd/")
    pid = jvm.java.lang.ProcessHandle.current().pid()
    assert str(Path(path.replace("self", str(pid))).readlink()) == "/memfd:headrace (deleted)"


def test_named_file_is_private_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with PrivateFiles() as files:
        path = Path(files.add(b"a secret"))
        assert path.read_bytes() == b"a secret"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_java_reads_every_value_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    conf = {
        "spark.a": 'back\\slash "and" =:#! ',
        "spark.b:c": "two\nlines\tand ü…",
        "spark.c": "C:\\new\\users",
        "d": "",
    }
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.c  default\nspark.e  kept \\")
    file = tmp_path / "spark.properties"
    file.write_bytes(to_properties(conf, defaults))
    assert java_properties(spark, file) == {**conf, "spark.e": "kept "}


def test_archived_class_path_is_that_of_the_jvm(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    command = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/cmdline").read_text().split("\0")
    entries = map(Path, command[command.index("-cp") + 1].split(os.pathsep))
    actual = [file for path in entries for file in (sorted(path.parent.glob("*.jar")) if path.name == "*" else [path])]
    conf = dict(spark.sparkContext.getConf().getAll())
    # Spark 4 lists one of its jars twice.
    assert {path for path in actual if path.exists()} == set(list_class_path(conf))


@pytest.fixture
def submit(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Replace PySpark's start of a JVM with a mock that returns its Java options."""
    from pyspark import SparkContext, java_gateway

    class SubmittedError(Exception):
        """Exception that contains the options."""

    def read_options(popen_kwargs: object) -> None:
        file = Path(shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])[1])
        (line,) = [line for line in file.read_text().splitlines() if line.startswith(JAVA_OPTIONS)]
        raise SubmittedError(line.partition("=")[2].replace("\\", ""))

    (jar,) = (spark_home() / "jars").glob("snappy-java-*.jar")
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    shutil.copy(jar, jars)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java_gateway, "launch_gateway", read_options)

    def start(options: str = "-Da=b") -> str:
        with pytest.raises(SubmittedError) as raised:
            start_jvm({JAVA_OPTIONS: options, "spark.driver.memory": "1g"})
        return str(raised.value)

    return start


@pytest.mark.parametrize("configured", [True, False])
def test_class_archives_are_in_the_cache_or_a_folder(
    submit: Callable[..., str], configured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CLASS_ARCHIVES", "off")
    assert [submit() for _ in range(2)] == ["-Da=b"] * 2
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADRACE_CLASS_ARCHIVES", str(tmp_path / "my classes") if configured else "")
    with without_new_archive():
        assert [submit() for _ in range(2)] == ["-Da=b"] * 2
    assert submit() == "-Da=b"
    prefix = re.escape(f"{tmp_path}/my classes/" if configured else f"{tmp_path}/cache/classes/")
    assert re.fullmatch(rf'-Da=b "-XX:ArchiveClassesAtExit={prefix}\w+\.\d+\.half" "-Xlog:cds\*=off"', submit())


def test_damaged_archive_is_deleted_and_java_starts_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "spark-1.jsa"
    archive.write_bytes(b"damaged")
    launched: list[Sequence[str]] = []

    def launch(_: Mapping[str, str], options: Sequence[str]) -> None:
        launched.append(options)
        if options:
            raise PySparkRuntimeError("Java gateway process exited before sending its port number")

    monkeypatch.setattr(jvm, "_launch", launch)
    monkeypatch.setattr(jvm, "_list_archive_options", lambda _: [f"-XX:SharedArchiveFile={archive}"])
    monkeypatch.setattr(SparkContext, "_gateway", None)
    jvm.start_jvm({})
    assert launched == [[f"-XX:SharedArchiveFile={archive}"], []]
    assert not archive.exists()


@pytest.mark.parametrize("options", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa", "-Dpassword=hunter2"])
def test_class_archives_are_off_with_options_of_the_user_or_a_secret(
    submit: Callable[..., str], options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CLASS_ARCHIVES", str(tmp_path / "classes"))
    assert not any("cds" in submit(options) for _ in range(4))
    assert not (tmp_path / "classes").exists()
